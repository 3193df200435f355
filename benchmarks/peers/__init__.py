"""The peers: other libraries that Firstseen is compared with, in their own environment."""
