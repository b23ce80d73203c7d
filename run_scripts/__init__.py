"""Commands that run whole campaigns: data, sweeps and reports."""
