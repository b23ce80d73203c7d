"""M(x): what it is computed from, and where it is kept."""
