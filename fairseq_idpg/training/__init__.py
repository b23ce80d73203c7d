"""Trainings as fairseq runs them, once fairseq_idpg is imported.

fairseq_patches  fairseq's functions that are replaced, because it has no extension point there
arguments        options with which a training would be another than was asked for; options whose text is Python
lock             one training at a time in a --save-dir
kept_options     a training that goes on is the one that was started: its options and data are compared
resuming         where it goes on; early stopping counts on, and a training that has ended stays ended
run_facts        what is known of a training that is over
"""
