"""The package ``firstseen`` and its examples."""
