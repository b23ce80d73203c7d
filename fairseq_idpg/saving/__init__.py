"""Checkpoints: written whole, read safely, with what they keep besides tensors.

Saved:     record (the data), resuming (options, early stopping), checksum; models/checkpoint.py says which tensors
Written:   by whole_files, by one training at a time (lock)
Read:      reading, configuration and overrides (options), tensors (names and sizes)
Resumed:   resuming compares options and data, record the folder
Hooks:     host, where fairseq has no extension point
"""
