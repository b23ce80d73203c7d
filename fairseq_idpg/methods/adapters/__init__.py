"""Small networks inside the frozen layers: one file per method; each registers its presets."""
