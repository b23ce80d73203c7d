"""The paper's tables and figures out of finished runs: ``python -m run_scripts.report --help``.

A number passes through records, paper, choice, render, scores, notes, tables, costs, figures and pages, in this order
of imports.
"""
