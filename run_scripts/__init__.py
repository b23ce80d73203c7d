"""Commands that run whole campaigns: data, sweeps and reports."""

import logging

for name in ("fairseq.tasks.text_to_speech", "fairseq.utils"):  # what they say when imported is no concern of ours
    logging.getLogger(name).setLevel(logging.WARNING)
