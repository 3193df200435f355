"""Work without a broker: deduplication of files, explanations, plans, idf models, HTML pages."""
