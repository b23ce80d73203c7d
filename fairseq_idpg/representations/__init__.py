"""M(x), the representation of a sentence that a prompt is generated from: what it is, and where it comes from.

kinds          what it is, and computing it in the pass that needs it
word_vectors   rows that ``python -m preprocess glove`` left in the data folder
stored         who finds rows instead: those of the folder, or of a --representation-cache
cache          its files, and by what they are named
states         those of a --state-cache: all states that enter a layer
fill           computing the rows that are missing
"""
