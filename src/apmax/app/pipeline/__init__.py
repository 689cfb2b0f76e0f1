"""From a file to a model and back: encoding tables, training, comparing, storing."""
