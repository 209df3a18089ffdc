"""What an engine core is: the contract between the Python face and whatever executes an epoch.

Two cores keep it: `native.NativeCore` (C++) and `reference.ReferenceCore` (the oracle). A core takes an epoch of
Arrow and returns Arrow; it knows nothing of Spark, files or the user's API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from . import types
from .bind import BoundProgram
from .columns import Batch
from .errors import SchemaError
from .program import TableSpec

DELETED_COLUMN = "_deleted"  # the last column of changed rows; no column of a user's may be called so
# Of a table that keeps versions: when a row was left so, by which transaction (0: it is no version, only the row), and
# when the sessions began that it belongs to.
TIME_COLUMN, SEQUENCE_COLUMN, FIRST_COLUMN = "_time", "_sequence", "_first"


@dataclass(frozen=True)
class Progress:
    """Where the stream stands: what the next epoch must know of all committed ones."""

    epoch: int = 0  # the next one
    watermark: Any = None  # the largest timestamp of any committed event
    last_key: tuple[Any, ...] | None = None  # the largest whole order key
    clock: int | None = None  # triggers have fired up to here; the effective timestamp of the last transaction
    last_event: int | None = None  # the effective timestamp of the last event, which `advance` does not move
    calls: int = 0  # and advances, that were committed since the last epoch


@dataclass(frozen=True)
class Moment:
    """What an execution takes from outside of its input; the same again if it is repeated."""

    draws: int = 0  # what all random numbers begin with: `draws.run_of`
    wall_us: int = 0  # the wall clock: microseconds since 1970 UTC


@dataclass(frozen=True)
class Outcome:
    """An executed epoch that is not committed yet."""

    order: pa.Array | None  # rows of the batch in transaction order (int64, null: a firing); None: as they came
    diverted: pa.Array | None  # rows that are late and did not run (int64); None: no row
    columns: Mapping[str, pa.Array]  # returned columns, then _status, _reason, _ts, _kind, in transaction order
    counts: Mapping[str, int]  # committed, aborted, unmatched, late; firings are transactions, too
    watermark: Any
    last_key: tuple[Any, ...] | None
    clock: int | None = None
    last_event: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # per stage
    batches: Sequence[Mapping[str, Any]] = ()  # how each batch was run, in order
    python: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # functions under the GIL: what they took


@dataclass(frozen=True)
class Part:
    """Results of batches that have ended, while later ones of their epoch execute. Final, unless the epoch fails."""

    begin: int  # the position of the first of them
    rows: int
    order: pa.Array | None  # rows of the batch (int64); None: as they came, from `begin` on
    columns: Mapping[str, pa.Array]  # as those of an outcome


class Parts(Protocol):
    """The parts of one epoch, for one thread that takes them while another executes it."""

    def next(self, rows_min: int, rows_max: int) -> Part | None:
        """Waits until at least so many rows are final; None: there will be no more, and the outcome has the rest."""

    def close(self) -> None:
        """No more parts. Whoever waits for one goes on, as does whoever executes."""


class Core(Protocol):
    reads_beside: bool  # whether `tables` may be called from any thread, also while an epoch runs
    commits: int  # how many epochs were committed: changes in the same instant as the state does

    def load(self, table: TableSpec, rows: pa.RecordBatch) -> None:
        """Insert checked rows (key parts, then value columns) into a table that the stream has not touched."""

    def execute(
        self,
        bound: BoundProgram,
        batch: Batch,
        progress: Progress,
        late: str,
        moment: Moment,
        until: int | None = None,
        parts: Parts | None = None,
    ) -> Outcome:
        """Run an epoch, and then triggers up to `until`. If it raises, nothing changed; else `commit` or `rollback`
        must follow. Batches that end are told to `parts`, which are closed when it returns."""

    def parts(self, bound: BoundProgram, patient: bool = False) -> Parts | None:
        """For the next `execute`; None: this core, or a program with triggers, has none.

        `patient`, for tests: it goes on with the next batch when the one before was taken."""

    def explain(self, bound: BoundProgram, batch: Batch, progress: Progress, late: str) -> dict[str, Any] | None:
        """The task precedence graph of a batch; None of a core that plans nothing. Changes nothing."""

    def changes(self, table: TableSpec) -> pa.RecordBatch:
        """The rows that the executed epoch changed, each once: what makes of the state before the one after.

        Key parts, value columns, `_deleted`; in no promised order. Values of a deleted row are zeros or empty. A row
        that was written is changed, also if its values are equal; one created and deleted again is not. Between
        `execute` and its end only.

        Of a table that keeps versions: every version that a transaction left, in order, with `_time`, `_sequence` and
        `_first…`; `_deleted` says that from there on all earlier ones are hidden.
        """

    def commit(self) -> None:
        """Make the executed epoch final, and count it."""

    def rollback(self) -> None:
        """Undo the executed epoch. Does nothing if there is none."""

    def apply(self, table: TableSpec, rows: pa.RecordBatch) -> None:
        """Make rows what `changes` or a snapshot says they are: for recovery, and part of no epoch.

        Key parts and value columns, and `_deleted` or not; checked (SchemaError). Of several rows with one key the last
        counts; deleting a missing row does nothing. So to apply rows again changes nothing; but versions, which come
        with `_time` and the rest, come to those that are there. Between epochs only.
        """

    def begin_snapshot(self) -> None:
        """Fix an image of all tables as they are now, between epochs. One at a time."""

    def snapshot_chunk(self, max_rows: int) -> tuple[TableSpec, pa.RecordBatch] | None:
        """The next rows of the open snapshot, at most so many of one table; None: all were read.

        Between epochs; any number of them may run and end since the snapshot began. A row comes once, in no promised
        order, also of tables; a table without rows does not come at all. Of a table that keeps versions those of a
        row come one after the other, the oldest first, also if they are more than asked for; a row that has none comes
        with `_sequence` 0.
        """

    def end_snapshot(self) -> None:
        """Forget the open snapshot, read or not. Does nothing if there is none."""

    def tables(self, tables: Sequence[TableSpec]) -> list[pa.Table]:
        """All committed rows of some tables, all of one moment: key parts, then value columns of each."""

    def gather(self, column: pa.Array, order: pa.Array | None) -> pa.Array:
        """A pass-through column in transaction order, as canonical Arrow."""

    def calls_here(self) -> bool:
        """This thread is inside of a user function that the core has called."""

    def state_size(self, enough: int = 0) -> tuple[int, int]:
        """Rows and bytes of all tables, with what an executed epoch added; bytes are exact if more than `enough`."""

    def close(self) -> None: ...


def version_columns(table: TableSpec) -> list[str]:
    """What else a version has; none where a table keeps no versions."""
    if table.kept is None:
        return []
    return [TIME_COLUMN, SEQUENCE_COLUMN, *(f"{FIRST_COLUMN}{i}" for i in range(len(table.kept.gaps)))]


def rows_schema(table: TableSpec, deleted: bool = False, versions: bool = False) -> pa.Schema:
    """Rows of a table in Arrow: key parts, value columns, what else versions have, and of changed rows `_deleted`."""
    fields = [(name, types.to_arrow(kind)) for name, kind in (*table.key, *table.columns)]
    fields += [(name, pa.int64()) for name in version_columns(table) if versions]
    return pa.schema([*fields, (DELETED_COLUMN, pa.bool_())] if deleted else fields)


def check_rows(table: TableSpec, rows: pa.RecordBatch) -> None:
    """Refuse rows that `apply` can't take: other columns, other types, nulls."""
    names = rows.schema.names
    wanted = rows_schema(table, DELETED_COLUMN in names, TIME_COLUMN in names)
    if rows.schema.names != wanted.names:
        raise SchemaError(
            f"apply({table.name!r}): expected the columns {', '.join(wanted.names)}, got {', '.join(rows.schema.names)}"
        )
    for name, kind, column in zip(wanted.names, wanted.types, rows.columns, strict=True):
        if column.type != kind:
            raise SchemaError(f"apply({table.name!r}): column {name!r}: expected {kind}, got {column.type}")
        if column.null_count:
            raise SchemaError(f"apply({table.name!r}): column {name!r} has {column.null_count} null(s)")


def late_message(count: int, order_by: tuple[str, ...]) -> str:
    return (
        f"{count} event(s) are older by {', '.join(order_by)} than an event of a committed epoch, and the app says "
        f'late="fail"; nothing was changed. Use late="admit" to run them now or late="divert" to set them aside'
    )
