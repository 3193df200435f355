"""Settings: their fields and rules, where they come from, what of them an index depends on."""
