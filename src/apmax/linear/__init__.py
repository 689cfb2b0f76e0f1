"""Linear models in the manner of scikit-learn, over compiled loops."""
