"""Trainings as fairseq runs them, once fairseq_idpg is imported.

arguments        options of fairseq with which a training would be another than was asked for
fairseq_patches  fairseq's functions that are replaced, because it has no extension point there
lock             one training at a time in a --save-dir
kept_options     a training that goes on is the one that was started: its options and data are compared
resuming         where it goes on; early stopping counts on, and a training that has ended stays ended
overrides        options whose text is Python
run_facts        what is known of a training that is over
"""
