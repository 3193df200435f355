"""What a worker says about itself: metrics, lag, health, stalls.

All steps of the data path may call it; it calls none of them.
"""
