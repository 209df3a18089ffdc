"""Threads and tasks that Ctrl-C can't leave half locked.

KeyboardInterrupt is raised in the main thread between any two lines of Python, also inside of threading.Event, Future
and ThreadPoolExecutor, whose locks are then held for ever by nobody. What the main thread calls here is one operation
of the interpreter each: `SimpleQueue.put`, `dict.setdefault`, `lock.acquire`. An interrupt comes before or after it.
"""

from __future__ import annotations

import _thread
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
POLL_S = 0.05  # for those behind a waiter that was interrupted; all others are woken at once


class Signal:
    """Set once, by one thread."""

    def __init__(self) -> None:
        self.is_set = False
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def set(self) -> None:
        if not self.is_set:
            self.is_set = True
            self._lock.release()

    def wait(self) -> None:
        while not self.is_set:
            if self._lock.acquire(timeout=POLL_S):
                self._lock.release()  # others may wait, too


class Task(Generic[T]):
    """A call that a worker makes, unless it is cancelled before it begins."""

    def __init__(self, function: Callable[[], T]):
        self._function: Callable[[], T] | None = function
        self._owner: dict[str, str] = {}
        self._over = Signal()
        self._value: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        if self._taken_by() != "worker":
            return
        function, self._function = self._function, None  # what it refers to is free afterwards
        assert function is not None
        try:
            self._value = function()
        except BaseException as error:
            self._error = error
        del function
        self._over.set()

    def _taken_by(self, who: str = "worker") -> str:
        return self._owner.setdefault("who", who)

    def cancel(self) -> bool:
        """True if it has not begun, and never will."""
        return self._taken_by("canceller") == "canceller"

    @property
    def begun(self) -> bool:
        return self._owner.get("who") == "worker"

    @property
    def cancelled(self) -> bool:
        return self._owner.get("who") == "canceller"

    @property
    def over(self) -> bool:
        return self._over.is_set or self.cancelled

    def wait(self) -> None:
        if not self.cancelled:
            self._over.wait()

    @property
    def error(self) -> BaseException | None:
        """After its end."""
        return self._error

    def result(self) -> T:
        """Wait for it; raises what it raised."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class Workers:
    """Threads that take tasks from one queue, in order. They end when the object is closed or forgotten.

    What is queued when the process ends is still done.
    """

    def __init__(self, name: str, count: int = 1):
        self._tasks: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=_work, args=(self._tasks,), name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()
        self._end = weakref.finalize(self, _end, self._tasks, self._threads)

    def do(self, function: Callable[[], T]) -> Task[T]:
        task = Task(function)
        self.put(task)
        return task

    def put(self, task: Task[Any]) -> None:
        self._tasks.put(task)

    def close(self) -> None:
        """After all that is queued."""
        self._end()


def _work(tasks: SimpleQueue[Task[Any] | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task


def _end(tasks: SimpleQueue[Task[Any] | None], threads: list[threading.Thread]) -> None:
    for _ in threads:
        tasks.put(None)
    for thread in threads:
        if thread is not threading.current_thread():  # forgotten by its own last task
            thread.join()
