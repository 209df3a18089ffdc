"""Executed → Logged → Committed, one commit after the other, in a thread of its own.

A commit has two halves: `write` makes it durable (its files, then its record), `show` makes it visible (one call into
the core). Ctrl-C raises in the main thread between any two lines, but never in this one: so nothing can come between
the halves, and whoever was interrupted finds both done or none. The main thread waits here, also when it was
interrupted, as the disk decides and not the signal.

    in turn       write, then show. An error of `write` means that nothing happened
    ahead         show, then write: for `submit`, whose next epoch executes while this one is written. An error of
                  `write` leaves memory ahead of the disk, so the engine stops

An engine that stopped says so to every later call. It also stops when another writer took over, and when nobody can
know whether a record exists: what is on the disk is then found out by opening the state again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ..errors import ClosedError
from .workers import Signal, Task, Workers


class Commit:
    def __init__(self, committer: Committer, write: Callable[[], Any], show: Callable[[], None], ahead: bool):
        self._committer, self._write, self._show, self.ahead = committer, write, show, ahead
        self.task: Task[Any] = Task(self._run)  # its result is what `write` returned
        self.shown = Signal()  # or never will be
        self.queued = False  # surely; an interrupt may have come between
        self._asker = threading.get_ident()

    def _run(self) -> Any:
        try:
            self._committer.check_running()
            return self._both_halves()
        finally:
            self.shown.set()

    def _both_halves(self) -> Any:
        result = None if self.ahead else self._write()
        try:
            self._show()
            self.shown.set()
            return self._write() if self.ahead else result
        except BaseException as error:
            self._committer.stop(error)  # what is visible and what is durable are not the same any more
            raise

    @property
    def under_way(self) -> bool:
        """Whether it can be waited for.

        Not if an interrupt came before it was queued: it never ran, and never will. Only the thread that asked for it
        can say so; for others it may be queued in the next moment, and is not visible yet.
        """
        if not self.queued and self._asker == threading.get_ident():
            self.task.cancel()  # unless it has begun
        return (self.queued or self.task.begun) and not self.task.cancelled


class Committer:
    def __init__(self) -> None:
        self._worker = Workers("morphspark-commit")
        self._flight: deque[Commit] = deque()
        self._stopped: BaseException | None = None

    def commit(self, write: Callable[[], Any], show: Callable[[], None]) -> Any:
        """Both halves, in turn; what `write` returned."""
        step = Commit(self, write, show, ahead=False)
        try:
            self._begin(step)
            return step.task.result()
        except BaseException:
            step.task.cancel()
            raise
        finally:
            self.settle()

    def commit_ahead(self, write: Callable[[], Any], show: Callable[[], None]) -> Task[Any]:
        """Visible soon, durable later."""
        step = Commit(self, write, show, ahead=True)
        self._begin(step)
        return step.task

    def run_behind(self, task: Callable[[], Any]) -> Task[Any]:
        """Run something behind all commits that were asked for; not part of any."""
        return self._worker.do(task)

    def _begin(self, step: Commit) -> None:
        # First into the list: an interrupt behind any of these lines leaves a commit that is found there.
        self._flight.append(step)
        self._worker.put(step.task)
        step.queued = True

    def settle(self) -> None:
        """Wait until every commit that began has ended; forget those that did not begin."""
        for step in list(self._flight):
            if step.under_way:
                step.task.wait()
        self._forget_over()

    def settle_ahead(self) -> None:
        """Wait until what is visible, or soon will be, is durable: whoever reads must not see what could be lost."""
        for step in list(self._flight):
            if step.ahead and step.under_way:
                step.task.wait()

    def wait_shown(self) -> None:
        """Wait until all commits are visible, durable or not."""
        for step in list(self._flight):
            if step.under_way:
                step.shown.wait()
        self._forget_over()

    def _forget_over(self) -> None:
        for step in [one for one in self._flight if one.task.over]:
            with contextlib.suppress(ValueError):  # another thread was faster
                self._flight.remove(step)

    # -- stopping

    def stop(self, cause: BaseException) -> None:
        self._stopped = self._stopped or cause

    @property
    def stopped(self) -> BaseException | None:
        return self._stopped

    def check_running(self) -> None:
        if self._stopped is not None:
            raise ClosedError(
                f"the engine has stopped and its memory is not to be trusted: {self._stopped}. Open the state again: "
                f"it is as the last durable commit left it"
            ) from self._stopped

    def close(self) -> None:
        self._worker.close()
