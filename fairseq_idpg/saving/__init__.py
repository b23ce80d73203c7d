"""Checkpoints: written whole, read safely, with what they keep besides tensors.

Saved:     record (the data), checksum; models/checkpoint.py says which tensors, training/ which options
Written:   atomic_write; of a folder to share shared_folder, and card, which is for people
Read:      reading, torch_files, configuration (options), tensors (names and shapes), backbone_file
Known:     fingerprints, what was found out about a backbone's file
"""
