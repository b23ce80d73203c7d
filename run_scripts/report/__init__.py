"""The paper's tables and figures out of finished runs: ``python -m run_scripts.report --help``.

The files in the order in which a number passes through them; each imports those above it only:

    records     the lines of results.jsonl, checked as they are read
    paper       what the papers print
    choice      which of the runs were asked for, may stand beside each other, and have the learning rate of a cell
    render      tables as text, figures as images
    scores      means over tasks, p values of differences, votes of the seeds
    notes       what is said below the numbers
    tables      Tables 1, 3, 6 and 7, those of other papers, transfer, and the overview
    costs       Table 2, the methods side by side, and what other papers print of parameters and seconds
    figures     Figures 1, 3, 7, 9, those of other papers, and dev scores over the updates
    pages       the tables that a page shows
"""
