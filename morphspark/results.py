"""The rows that an epoch gives: columns of its events, returned columns, and those that start with `_`.

Of the whole epoch, as its result; and of a part of it, for whoever writes it out while the rest executes.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from .columns import canonical, filled, is_plain, one_chunk
from .core import Part


def result_table(
    events: Mapping[str, pa.Array | pa.ChunkedArray], columns: Mapping[str, pa.Array], epoch: int
) -> pa.Table:
    """`events`: their columns in transaction order; `columns`: those of an outcome."""
    found, own = dict(events), dict(columns)
    last = {name: own.pop(name) for name in ("_ts", "_kind") if name in own}
    for name in found.keys() & own.keys():
        found[name] = filled(found[name], own.pop(name))
    epochs = pa.repeat(pa.scalar(epoch, pa.int64()), len(last["_ts"]))
    return pa.table({**found, **own, "_epoch": epochs, **last})


class PartResults:
    """Makes of a part of an epoch the rows that its result will have there: equal values, not canonical."""

    def __init__(self, events: pa.Table, epoch: int):
        self._events, self._epoch = events, epoch
        self._whole: dict[str, pa.Array] = {}  # columns as one chunk, where rows are picked from them

    def of(self, part: Part) -> pa.Table:
        events = {name: self._column(name, part) for name in self._events.column_names}
        return result_table(events, part.columns, self._epoch)

    def _column(self, name: str, part: Part) -> pa.Array | pa.ChunkedArray:
        column = self._events.column(name)
        if part.order is None:
            rows = column.slice(part.begin, part.rows)
        else:
            if name not in self._whole:
                self._whole[name] = one_chunk(column)
            rows = self._whole[name].take(part.order)
        return rows if is_plain(column.type) else canonical(one_chunk(rows))
