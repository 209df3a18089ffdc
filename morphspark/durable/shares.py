"""A table's rows in shares that are read apart from each other, by tasks that know nothing of one another.

    base       sections of a snapshot and of loads                each belongs to one share
    changes    sections of later epochs and calls, in order       every share reads them: it leaves out the base rows
                                                                  that changed, and gives its part of the changed ones

Where that would not do, one share recovers the whole table: behind epochs that logged their commands, where the table
got new columns meanwhile, and behind a snapshot that has every version of a row, perhaps in several sections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..config import Config
from ..core import DELETED_COLUMN
from ..errors import SchemaError, StateError
from ..native import NativeCore
from ..program import TableSpec
from .directory import rows_after
from .files import DataFile, Section, read_section
from .history import History, Start, read_history
from .records import Bind, Epoch, Load, Record, Snapshot
from .recovery import changed_sections
from .store import Store

SHARE_ROWS = 1 << 17  # a task that reads less costs more to start than to run
BATCH_ROWS = 1 << 16
_PLACE = "_place"  # of a row among all changed ones; no column of a table begins so

Piece = tuple[DataFile, Section]


@dataclass(frozen=True)
class Share:
    """The `index`-th of `count` shares of a table right after a record."""

    table: TableSpec
    record: int
    index: int = 0
    count: int = 1
    base: tuple[Piece, ...] = ()
    changes: tuple[Piece, ...] = ()
    whole: bool = False  # recover it, whatever the pieces are


def spec_after(history: History, number: int, name: str) -> TableSpec:
    """How a table was declared right after a record."""
    start = next(history.starts(number))
    binds = [one.body for one in _between(history, start, number) if isinstance(one.body, Bind)]
    tables = (binds[-1] if binds else start.bind).program.tables
    for spec in tables:
        if spec.name == name:
            return spec
    names = ", ".join(spec.name for spec in tables)
    raise SchemaError(f"{history.store.location} has no table {name!r} then (tables: {names or 'none'})")


def plan_shares(history: History, number: int, name: str) -> list[Share]:
    """Shares that make up a table right after a record."""
    spec = spec_after(history, number, name)
    start = next(history.starts(number))
    records = _between(history, start, number)
    if not _can_share(spec, start, records):
        return [Share(spec, number, whole=True)]
    base = list(changed_sections(start.snapshot, {name}))
    changes: list[Piece] = []
    for record in records:
        # A load behind a call might bring back a row that the call deleted: then it is a change like others.
        first = isinstance(record.body, Load) and not changes
        (base if first else changes).extend(changed_sections(record.body, {name}))
    changed = sum(section.rows for _, section in changes)
    rows = changed + sum(section.rows for _, section in base)
    count = max(1, min(-(-rows // SHARE_ROWS), len(base) + changed // SHARE_ROWS))
    groups = _grouped(base, count)
    return [Share(spec, number, index, count, groups[index], tuple(changes)) for index in range(count)]


def read_share(store: Store, share: Share) -> Iterator[pa.RecordBatch]:
    names = [name for name, _ in (*share.table.key, *share.table.columns)]
    for rows in _whole_table(store, share) if share.whole else _rows_of(store, share):
        yield from rows.select(names).combine_chunks().to_batches(BATCH_ROWS)


def _whole_table(store: Store, share: Share) -> Iterator[pa.Table]:
    history = read_history(store)
    if history is None:
        raise StateError(f"{store.location} held state when the read began, and now it holds none")
    yield rows_after(history, share.record, share.table.name, NativeCore, Config())


def _rows_of(store: Store, share: Share) -> Iterator[pa.Table]:
    keys = [name for name, _ in share.table.key]
    changed = _changed(store, share.changes, keys)
    if changed is not None:
        first, end = (changed.num_rows * place // share.count for place in (share.index, share.index + 1))
        part = changed.slice(first, end - first)
        yield part.filter(pc.invert(part.column(DELETED_COLUMN)))
    for file, section in share.base:
        rows = read_section(store, file, section)
        if changed is not None:
            rows = rows.join(changed.select(keys), keys=keys, join_type="left anti")
        yield rows


def _changed(store: Store, changes: tuple[Piece, ...], keys: list[str]) -> pa.Table | None:
    """The last state of every row that changed, in an order that every share finds alike."""
    if not changes:
        return None
    parts = [_with_deleted(read_section(store, file, section)) for file, section in changes]
    rows = pa.concat_tables(parts)
    places = rows.select(keys).append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
    last = places.group_by(keys).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
    return rows.take(last.take(pc.sort_indices(last)))


def _with_deleted(rows: pa.Table) -> pa.Table:
    if DELETED_COLUMN in rows.column_names:
        return rows
    return rows.append_column(DELETED_COLUMN, pa.repeat(pa.scalar(False), rows.num_rows))


def _between(history: History, start: Start, number: int) -> list[Record]:
    """What changed the state in between; a snapshot only repeats it."""
    records = history.after(start.first - 1)
    return [one for one in records if one.number <= number and not isinstance(one.body, Snapshot)]


def _can_share(spec: TableSpec, start: Start, records: list[Record]) -> bool:
    bodies = [record.body for record in records]
    if spec.kept is not None and start.snapshot is not None:
        return False
    if any(isinstance(body, Epoch) and body.mode == "command" for body in bodies):
        return False
    declared = [start.bind, *(body for body in bodies if isinstance(body, Bind))]
    return all(spec in bind.program.tables or spec.name not in _names(bind) for bind in declared)


def _names(bind: Bind) -> list[str]:
    return [spec.name for spec in bind.program.tables]


def _grouped(pieces: list[Piece], count: int) -> list[tuple[Piece, ...]]:
    """In their order, with about as many rows in each group."""
    groups: list[list[Piece]] = [[] for _ in range(count)]
    total = sum(section.rows for _, section in pieces)
    before = 0
    for piece in pieces:
        groups[min(before * count // max(total, 1), count - 1)].append(piece)
        before += piece[1].rows
    return [tuple(group) for group in groups]
