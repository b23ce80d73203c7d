"""The paper's tables and figures out of finished runs: ``python -m run_scripts.report --help``.

The files in the order in which a number passes through them; each imports those above it only:

    paper       what the papers print
    records     the lines of results.jsonl, checked as they are read
    choice      which of them were asked for, and may stand beside each other: a table never mixes several settings
    render      tables as text, figures as images
    scores      of a row on a task: the learning rate that dev chooses, p values of differences, votes of the seeds
    notes       what is said below the numbers
    tables      Tables 1, 3, 6, 7 and the overview
    compared    transfer between tasks, and the tables and figures of other papers
    costs       Table 2, the methods side by side, and what other papers print of parameters and seconds
    figures     Figures 1, 3, 7, 9, and dev scores over the updates
    pages       the tables that a page shows
"""
