"""What is optimised: surrogates of average precision, and their exact value and gradient."""
