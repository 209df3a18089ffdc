"""Snapshots that stop no batch: an image begins between two epochs, and is read a few rows after each later one.

The core keeps what it needs of the image while epochs go on. After every commit a chunk is taken from it; encoding and
writing happen in a thread. The chunk is sized so that reading and writing it take a small share of an epoch's time, as
the thread takes its time from a core that the epoch wants. When all is written, a record says which record's state it
is. An interrupt or a failed write gives the image up, and a later epoch begins another: a snapshot shortens recovery
and is never needed for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

import pyarrow as pa

from ..core import Core, Progress
from ..types import Type
from .failpoints import reach
from .files import FOLDER, DataWriter
from .records import Bind, Snapshot
from .store import Store
from .workers import Task, Workers

TIME_SHARE = 0.1  # of an epoch, for reading rows after it and writing them beside the next one
CHUNK_ROWS_MIN = 1 << 10
CHUNK_ROWS_MAX = 1 << 18
CHUNKS_WAITING_MAX = 4  # read, but not written yet

log = logging.getLogger(__name__)


class SnapshotWriter:
    """One snapshot on its way. `record` makes its record, called by the worker."""

    def __init__(
        self,
        core: Core,
        store: Store,
        worker: Workers,
        known: tuple[int, str, Bind, Progress, Mapping[str, Type]],
        record: Callable[[Snapshot], None],
    ):
        self._core, self._store, self._worker, self._known, self._record = core, store, worker, known, record
        self._writer: DataWriter | None = None  # the worker's
        self._waiting: list[Task[None]] = []
        self._read_row_s = self._write_row_s = 0.0  # seconds for a row of the last chunk; the second is the worker's
        self._whole = False  # False while a chunk is taken: an interrupt there loses rows
        self._read_all = False
        self._given_up = False
        core.end_snapshot()  # one that an interrupt left behind
        core.begin_snapshot()
        self._whole = True
        reach("snapshot.begun")

    def step(self, epoch_seconds: float) -> bool:
        """Read some rows, for which a share of the time that an epoch took is enough. True: it is over, or given up."""
        over = [one for one in self._waiting if one.over]  # looked at once, as another may fail in this moment
        if not self._whole or _failed(over):
            self.give_up()
            return True
        self._waiting = [one for one in self._waiting if one not in over]
        if self._read_all and not self._waiting:
            return True
        left_s = epoch_seconds * TIME_SHARE
        try:
            while not self._read_all and len(self._waiting) < CHUNKS_WAITING_MAX:
                left_s -= self._read(left_s)
                if left_s <= 0:
                    break
        except MemoryError as error:  # of the image: no reason for the epoch to fail
            log.warning("a snapshot is given up; a later epoch tries again: %s", error)
            self.give_up()
            return True
        return False

    def finish(self) -> None:
        """Read and write all that is left, now."""
        while not self._read_all:
            self._read(1.0)
        for one in self._waiting:
            one.result()

    def give_up(self) -> None:
        self._core.end_snapshot()
        self._given_up = True
        self._worker.do(self._discard)

    def _read(self, seconds: float) -> float:
        """As many rows as these seconds are enough for; the seconds that they really take, as far as is known."""
        rows = int(min(max(seconds / max(self._row_s, 1e-9), CHUNK_ROWS_MIN), CHUNK_ROWS_MAX))
        self._whole = False
        started = time.perf_counter()
        chunk = self._core.snapshot_chunk(rows)
        if chunk is None:
            self._core.end_snapshot()
            self._read_all = True
            self._waiting.append(self._worker.do(self._end))
        else:
            self._read_row_s = (time.perf_counter() - started) / chunk[1].num_rows
            self._waiting.append(self._worker.do(lambda: self._write(chunk[0].name, chunk[1])))
        self._whole = True
        reach("snapshot.read")
        return 0.0 if chunk is None else chunk[1].num_rows * self._row_s

    @property
    def _row_s(self) -> float:
        return self._read_row_s + (self._write_row_s or self._read_row_s)  # as long, until it is known

    # -- what the worker does

    def _write(self, table: str, rows: pa.RecordBatch) -> None:
        if self._given_up:
            return
        started = time.perf_counter()
        try:
            self._writer = self._writer or DataWriter(self._store)
            self._writer.add_rows(table, rows)
        except BaseException:
            self._given_up = True  # later chunks and the end are queued: without these rows there must be no record
            raise
        self._write_row_s = (time.perf_counter() - started) / rows.num_rows

    def _end(self) -> None:
        if self._given_up:
            return
        file = None if self._writer is None else self._writer.finish()
        self._writer = None  # from here on a record may name it, so nobody may discard it
        self._store.sync(FOLDER)
        reach("snapshot.written")
        self._record(Snapshot(*self._known, file))

    def _discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()
            self._writer = None


def _failed(tasks: list[Task[None]]) -> bool:
    error = next((one.error for one in tasks if one.error is not None), None)
    if error is not None:
        log.warning("a snapshot could not be written; a later epoch tries again: %s", error)
    return error is not None
