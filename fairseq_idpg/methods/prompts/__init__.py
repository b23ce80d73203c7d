"""WHAT a prompt is: one file per method; each registers its presets."""
