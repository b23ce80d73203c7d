"""Using what was trained: a checkpoint and anybody's sentences in, answers out."""
