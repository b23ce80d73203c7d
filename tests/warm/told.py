"""``python -m tests.warm.told STATUS``, or this file: says how it was started, and ends so; "wait": when it is told."""

import json
import os
import sys
import time

said = {"arguments": sys.argv, "folder": os.getcwd(), "name": os.environ.get("NAME"), "input": sys.stdin.readline()}
said["warm"] = "fairseq" in sys.modules
said["path"] = sys.path[:2]
print(json.dumps(said))
print("an error", file=sys.stderr)
if sys.argv[1] == "wait":
    sys.stdout.flush()
    time.sleep(600)
sys.exit(int(sys.argv[1]))
