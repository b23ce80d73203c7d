"""M(x), the representation of a sentence that a prompt is generated from, and the files that keep it."""
