"""Checkpoints: written whole, read safely, with what they keep besides tensors.

Files:     torch_files (reader and writer), shared_folder (to share, with its card), reading (both, as one)
Contents:  tensors (names, shapes, checksums), configuration (options), record (the data)
Backbones: backbone_file, with notes of what was found out about them
models/checkpoint.py says which tensors a checkpoint has, training/ which options.
"""
