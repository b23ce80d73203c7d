"""A seeded campaign of damaged files through the public commands, and runs that are killed while they save.

    python -m tests.robustness --cases 2000 --seed 1       # the table: targets x verdicts, then every bad case
    python -m tests.robustness --only 'checkpoint/predict:bit flip:3'     # one of them again, with its output
    python -m tests.robustness --kills 20                  # kill loops alone
    python -m tests.robustness --code ../other             # the same against another checkout

A case copies a small world (``world``) of files that the code under test made, damages one file of it (``damage``,
``checkpoints``, ``folders``, ``texts``), runs one command (``targets``) in a fork of a process that has imported
everything (``server``) and judges the end (``verdict``):

    identical               the answer of the undamaged files
    clear error             status other than 0, one line of ours that names a file or an option, nothing half-written
    another file            the damaged file is a whole and valid one that says something else and has no checksum;
                            ``valid`` decides that without the code under test, and each target says whether it applies
    warned                  another answer after a warning that names it, where the target's documentation says so
    traceback, hang, changed without a word, ran code       bad: there must be none
"""
