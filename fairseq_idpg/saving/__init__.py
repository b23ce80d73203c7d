"""Checkpoints, folders to share and backbones: written whole, read safely, with what they keep besides tensors."""
