"""A worker's metrics, lag, health and stalls.

All steps of the data path may call this folder; it calls none of them.
"""
