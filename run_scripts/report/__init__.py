"""The paper's tables and figures out of finished runs: ``python -m run_scripts.report --help``."""
