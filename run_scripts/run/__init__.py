"""One training with its evaluation."""
