"""Many runs: ``python -m run_scripts.sweep CONFIG.yaml``."""
