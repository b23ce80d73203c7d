"""The paper's tables and figures out of finished runs: ``python -m run_scripts.report --help``.

The files in the order in which a number passes through them; each imports those above it only:

    paper                     what the paper prints
    valid                     what a line of results.jsonl must hold
    runs                      the lines of results.jsonl, checked by that
    alike                     what runs must have in common to stand beside each other
    scope                     which of them were asked for; one table never mixes several settings
    scores                    of a row on a task: the learning rate that dev chooses, votes of the seeds, p values
    phrases, rates, notes     what is said below the numbers
    render, drawing           tables as text, figures as images
    tables, counts, figures   Tables 1, 3, 6, 7 and the overview; Table 2; Figures 1, 3, 7, 9
    methods                   what each method scores on a task, and what it costs
    curves                    dev scores over the updates
    transfer                  what models of one task say of another
    papers                    what other papers print
    compared, costs           their tables and figures
"""
