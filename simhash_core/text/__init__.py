"""From a text to its fingerprint.

Normalisation, segmentation, features, weights, fingerprint, sketches; profiles choose among them.
"""
