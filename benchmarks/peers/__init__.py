"""The peers: libraries that Firstseen is measured beside, in an environment of their own.

None of them is a dependency of the product.
"""
