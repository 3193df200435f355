"""The tests, in layers; CONTRIBUTING.md says what each layer is for and how to run it alone."""
