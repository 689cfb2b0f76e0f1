"""The application: from a data file to a model, its evaluation and a report."""
