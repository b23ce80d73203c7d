"""Using what was trained: a checkpoint and anybody's sentences in, answers out.

``load`` reads a checkpoint and finds what its text was encoded with; a ``Predictor`` turns sentences into ids
(``text``), ids into batches (``examples``), and these into a ``Prediction`` each.
"""
