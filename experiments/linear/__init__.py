"""Linear models: Tables 2 and 3, the figures and the convergence rates."""
