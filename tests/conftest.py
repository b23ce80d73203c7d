"""Settings of the whole suite."""

import os

# Two threads that spin while they wait slow each other down on a busy machine; results are the same.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
