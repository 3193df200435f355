"""Libraries that Firstseen is measured beside, in an environment of their own."""
