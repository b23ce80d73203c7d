"""What is trained beside a frozen backbone: one file per method; each registers its presets."""

from . import adapters, baselines, prompts  # noqa: F401
