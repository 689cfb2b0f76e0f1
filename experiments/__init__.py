"""The experiments of the paper, re-run: ``python -m experiments --help``."""
