"""Raw text to the binarized folders that fairseq reads; ``python -m preprocess --help``.

Imports neither torch nor fairseq: a small task is done before those would be loaded.
"""
