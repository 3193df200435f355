"""The watch of a worker: lag, stalls, health."""
