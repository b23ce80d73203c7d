"""What ``python`` is here: a process of the server with our arguments, folder, environment and standard streams.

Signals are handed on to it, and its status is ours. It ends when we do.
"""

import json
import os
import signal
import socket
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))) + os.sep
OURS = {"checkpoints", "fairseq_cli", "fairseq_idpg", "preprocess", "run_scripts", "submitit", "tests"}


def is_ours(arguments: list) -> bool:
    """Whether a module or file of this repository is asked for, or a text that names one."""
    if arguments[:1] == ["-c"]:
        return any(name in arguments[1] for name in OURS)
    if arguments[:1] == ["-m"]:
        return arguments[1].split(".")[0] in OURS
    return bool(arguments) and arguments[0].endswith(".py") and os.path.realpath(arguments[0]).startswith(ROOT)


def main() -> None:
    address, *arguments = sys.argv[1:]
    if arguments[:1] == ["-u"] and is_ours(arguments[1:]):  # streams are those of a process that begins anew
        del arguments[0]
    if not is_ours(arguments):
        os.execv(sys.executable, [sys.executable, *arguments])
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        request = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(request)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as after nohup
                signal.signal(number, lambda number, _: server.sendall(bytes([number])))
        answer = server.recv(4)
        if not answer:
            sys.exit("the server of the warm python is gone")
        status = os.waitstatus_to_exitcode(int.from_bytes(answer, "big"))
    if status < 0:  # as it ended
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
