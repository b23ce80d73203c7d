"""Checkpoints: written whole, read safely, with what they keep besides tensors.

Saved:     record (the data), checksum; models/checkpoint.py says which tensors, training/ which options
Written:   whole_files; of a folder to share shared_folder, and card, which is for people
Read:      reading, torch_files, configuration (options), tensors (names and shapes)
Known:     known_files, what was found out about a backbone's file
"""
