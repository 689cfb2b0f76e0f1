"""The paper's linear experiments, re-run: tables, figures, and the truth beside them."""
