"""Submissions to GLUE and SuperGLUE out of finished runs: ``python -m run_scripts.submit --help``.

rules      the files that a benchmark takes: whose model answers each, how many examples it has
formats    answers as the text of such a file
plan       which runs answer which test set; what is missing
answers    predictions of these runs, and the vote of their seeds
"""
