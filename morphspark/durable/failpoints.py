"""Named places at which a test can make the process fail. Off, and next to free, unless it is asked for.

    MORPHSPARK_FAILPOINT=record.linked:kill        SIGKILL where a record has its name, but nothing more is certain
    MORPHSPARK_FAILPOINT=data.written:raise:3      an exception at the third passage
    MORPHSPARK_FAILPOINT=any:kill:57               at the 57th passage of any failpoint

They stand between every write, fsync, link and hand-over, in the order of NAMES.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

VARIABLE = "MORPHSPARK_FAILPOINT"
NAMES = (
    "open.recovered",  # state was read, nothing was written yet
    "output.part",  # some of an output, of an epoch that executes
    "epoch.executed",  # in memory only
    "data.created",  # an empty data file
    "data.written",  # all its bytes, perhaps not on the disk
    "data.synced",
    "data.listed",  # the folder of data files is on the disk, too
    "record.created",  # under another name
    "record.written",
    "record.synced",
    "record.linked",  # it has its name: committed, if the disk keeps it
    "record.listed",  # the folder is on the disk: committed
    "epoch.committed",  # visible
    "snapshot.begun",
    "snapshot.read",  # some rows of it, or all
    "snapshot.written",
    "snapshot.recorded",
    "retention.record",  # one more record is gone
    "retention.data",  # one more data file is gone
    "handover.before",  # the user's writer was not called yet
    "handover.after",
)
ACTIONS = ("raise", "kill")


class FailpointError(Exception):
    """What a failpoint raises; nothing of morphspark catches it by name."""


class _Plan:
    def __init__(self, text: str):
        name, action, *nth = text.split(":")
        if name not in (*NAMES, "any") or action not in ACTIONS or len(nth) > 1:
            raise ValueError(f"{VARIABLE}={text!r}: expected name:action or name:action:nth; names: {', '.join(NAMES)}")
        self._name, self._action = name, action
        self._left = int(nth[0]) if nth else 1
        self._lock = threading.Lock()

    def reach(self, name: str) -> None:
        if self._name not in (name, "any"):
            return
        with self._lock:
            self._left -= 1
            now = self._left == 0
        if now and self._action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if now:
            raise FailpointError(name)


_plan = _Plan(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def reach(name: str) -> None:
    """Pass a named place."""
    if _plan is not None:
        _plan.reach(name)


@contextlib.contextmanager
def armed(text: str) -> Iterator[None]:
    """Switch one on for a while, in this process."""
    global _plan
    before, _plan = _plan, _Plan(text)
    try:
        yield
    finally:
        _plan = before
