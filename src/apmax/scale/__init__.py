"""Fits of data larger than memory, by folds over blocks of rows."""
