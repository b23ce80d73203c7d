"""M(x), the representation of a sentence that a prompt is generated from: what it is, and where it comes from.

kinds    what it is, and computing it in the pass that needs it
stored   who finds rows instead: word vectors of the data folder, or a --representation-cache
cache    the files of a cache, by what they are named, and filling them
states   those of a --state-cache: all states that enter a layer
"""
