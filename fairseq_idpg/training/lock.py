"""One training at a time in a --save-dir."""

import contextlib
import fcntl
import logging
import os
import socket
import time

from ..errors import InputError

logger = logging.getLogger(__name__)

NAME = ".training.lock"
_held: dict[str, int] = {}  # path of a lock -> descriptor of the open file that holds it


def hold(folder: str) -> None:
    """Keep other trainings out of ``folder`` until this process ends; raise InputError where another process holds it.

    The lock belongs to an open file (flock), so that the system releases it after a kill.
    """
    path = os.path.join(os.path.realpath(folder), NAME)
    release(folder)  # of a training before in this process: the folder may have been removed and made again since
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(file, 200, 0).decode(errors="replace")
        os.close(file)
        raise InputError(
            f"--save-dir {folder} belongs to a training that is still running ({holder}): wait for its end, or give "
            "another --save-dir"
        ) from None
    except OSError as error:
        os.close(file)
        logger.warning("--save-dir %s cannot be locked (%s): let no other training write there", folder, error.strerror)
        return
    _held[path] = file
    about = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
        os.ftruncate(file, 0)
        os.write(file, about.encode())
        os.fchmod(file, 0o666)  # all who may write to the folder may go on with the training


def release(folder: str) -> None:
    """Let other trainings into ``folder``, if this process has kept them out."""
    file = _held.pop(os.path.join(os.path.realpath(folder), NAME), None)
    if file is not None:
        os.close(file)


def _leave_to_parent() -> None:
    """Close the locks in a forked child, such as a worker that loads data, which may outlive its parent."""
    for file in _held.values():
        os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
