"""Write-out of one batch while the next one of its epoch executes: outputs that are begun before their epoch has ended.

What came of a batch is final when it has ended: batches end in order, and only the epoch as a whole can still be taken
back. So a thread takes the results of ended batches from the core, a part at a time, and writes each as a row group
of the output file. When the epoch has executed, only what came after the last part is left to write.

    execute      batch ─▶ batch ─▶ batch ─▶ batch ─┐
    this thread           part 0 ───▶ part 1 ──────┴▶ (the committer's) the rest, fsync

If the epoch fails, its file is deleted; if the process dies, no record names it, and the next writer deletes it.
Changed rows are not written early: see ARCHITECTURE.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pyarrow as pa

from ..core import Part, Parts
from .failpoints import reach
from .files import ROW_GROUP_ROWS, DataFile, OutputWriter, write_output
from .store import Store
from .workers import Task, Workers

EPOCH_ROWS_MIN = 1 << 16  # smaller epochs are written when another thread would hardly have begun
PART_ROWS_MIN = 1 << 15  # smaller row groups take more bytes, and longer to read
PATIENT = False  # for tests: batches wait until the one before was taken


def write_always(set_attribute: Callable[[object, str, object], None] = setattr) -> None:
    """For tests: every epoch is large enough, and of its batches all but the last are written early, surely."""
    here = sys.modules[__name__]
    for name, value in (("EPOCH_ROWS_MIN", 0), ("PART_ROWS_MIN", 1), ("PATIENT", True)):
        set_attribute(here, name, value)


class EarlyOutput:
    """The output of one epoch. `begin` it, and then `write` or `discard` it."""

    def __init__(self, store: Store, workers: Workers, parts: Parts, shape: Callable[[Part], pa.Table]):
        """`shape` makes of a part what the output has in its place."""
        self.parts = parts
        self._store, self._workers, self._shape = store, workers, shape
        self._task: Task[OutputWriter | None] = Task(self._write_parts)
        self._ended = False  # by `write`

    def begin(self) -> None:
        self._workers.put(self._task)

    def _write_parts(self) -> OutputWriter | None:
        """None: nothing of it is written."""
        writer: OutputWriter | None = None
        try:
            while (part := self.parts.next(PART_ROWS_MIN, ROW_GROUP_ROWS)) is not None:
                rows = self._shape(part)
                if writer is None:
                    writer = OutputWriter(self._store, rows.schema)
                writer.add(rows)
                reach("output.part")
            return writer
        except BaseException as error:
            if writer is not None:
                writer.discard()
            if isinstance(error, pa.ArrowException):  # a column that can't be stored: the whole output will say which
                return None
            raise
        finally:
            self.parts.close()

    def write(self, rows: pa.Table) -> DataFile:
        """The whole output, of which some rows are written."""
        self._ended = True
        writer = None if self._task.cancel() else self._task.result()
        if writer is None:
            return write_output(self._store, rows)
        try:
            assert writer.schema.equals(rows.schema), f"{writer.schema} is not {rows.schema}"
            writer.add(rows.slice(writer.rows))
            return writer.finish()
        except BaseException:
            writer.discard()
            raise

    def discard(self) -> None:
        """The epoch failed. Does nothing if `write` has ended it, well or not."""
        self.parts.close()
        if not self._ended and not self._task.cancel():
            self._workers.do(self._forget)

    def _forget(self) -> None:
        writer = self._task.result()
        if writer is not None:
            writer.discard()
