"""What an engine core is: the contract between the Python face and whatever executes an epoch.

Two cores keep it: `native.NativeCore` (C++) and `reference.ReferenceCore` (the oracle). A core takes an epoch of
Arrow and returns Arrow; it knows nothing of Spark, files or the user's API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from .bind import BoundProgram
from .columns import Batch
from .program import TableSpec


@dataclass(frozen=True)
class Progress:
    """Where the stream stands: what the next epoch must know of all committed ones."""

    epoch: int = 0  # the next one
    watermark: Any = None  # the largest timestamp of any committed event
    last_key: tuple[Any, ...] | None = None  # the largest whole order key


@dataclass(frozen=True)
class Outcome:
    """An executed epoch that is not committed yet."""

    order: pa.Array | None  # rows of the batch in transaction order (int64); None: as they came
    diverted: pa.Array | None  # rows that are late and did not run (int64); None: no row
    columns: Mapping[str, pa.Array]  # returned columns, then _status, _reason, _ts, in transaction order
    counts: Mapping[str, int]  # committed, aborted, unmatched, late
    watermark: Any
    last_key: tuple[Any, ...] | None
    seconds: Mapping[str, float] = field(default_factory=dict)  # per stage
    batches: Sequence[Mapping[str, Any]] = ()  # how each batch was run, in order


class Core(Protocol):
    commits: int  # how many epochs were committed: changes in the same instant as the state does

    def load(self, table: TableSpec, rows: pa.RecordBatch) -> None:
        """Insert checked rows (key parts, then value columns) into a table that the stream has not touched."""

    def execute(self, bound: BoundProgram, batch: Batch, progress: Progress, late: str) -> Outcome:
        """Run an epoch. If it raises, nothing changed; else `commit` or `rollback` must follow."""

    def explain(self, bound: BoundProgram, batch: Batch, progress: Progress) -> dict[str, Any] | None:
        """The task precedence graph of a batch; None if it can't be planned. Changes nothing."""

    def commit(self) -> None:
        """Make the executed epoch final, and count it."""

    def rollback(self) -> None:
        """Undo the executed epoch. Does nothing if there is none."""

    def table(self, table: TableSpec) -> pa.Table:
        """All committed rows: key parts, then value columns."""

    def gather(self, column: pa.Array, order: pa.Array | None) -> pa.Array:
        """A pass-through column in transaction order, as canonical Arrow."""

    def state_size(self, enough: int = 0) -> tuple[int, int]:
        """Rows and bytes of all tables, with what an executed epoch added; bytes are exact if more than `enough`."""

    def close(self) -> None: ...


def late_message(count: int, order_by: tuple[str, ...]) -> str:
    return (
        f"{count} event(s) are older by {', '.join(order_by)} than an event of a committed epoch, and the app says "
        f'late="fail"; nothing was changed. Use late="admit" to run them now or late="divert" to set them aside'
    )
