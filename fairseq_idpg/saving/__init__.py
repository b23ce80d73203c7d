"""Checkpoints: written whole, read safely, with what they keep besides tensors."""
