"""Files that commands read documents from and write results to."""
