"""Trainings as fairseq runs them, once fairseq_idpg is imported.

fairseq_patches  fairseq's functions that are replaced, because it has no extension point there
arguments        options that would make another training; options whose text is Python
lock             one training at a time in a --save-dir
kept_options     options and data of a training that goes on, compared with those that it was started with
resuming         the checkpoint that is read, early stopping that counts on, trainings that have ended
run_facts        facts of a training that is over
"""
