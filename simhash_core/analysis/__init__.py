"""Calculations outside the data path: recall and cost of a plan, exact Jaccard, idf training."""
