"""Grep & Sum with windows: updates of random keys, and now and then a sum over the window of 100 random keys.

Time is counted in events. A record's value is float64, whose sums are the dearest, as they are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import morphspark as ms
from morphspark.bench.work import FREE, Cost, work

KEYS_READ = 100
UPDATE, READ = 0, 1


@dataclass(frozen=True)
class GrepWindow:
    keys: int
    size: int  # of the window, in events
    period: int  # one read in so many events
    cost: Cost = FREE

    def app(self) -> ms.App:
        app = ms.App("grep_window", order_by="ts")
        records = app.table("records", key="int64", columns={"value": "float64"}, default={"value": 0.0})

        @app.on(do=UPDATE)
        def update(e: Any) -> None:
            records[e.key].value = work(e.number, self.cost) * 0.1

        @app.on(do=READ)
        def read(e: Any) -> Any:
            return {"sum": ms.window([records[k] for k in ms.each(e.keys)], self.size).value.sum()}

        return app

    def events(self, start: int, count: int, reads: bool | None = None) -> pa.Table:
        """Events from a time on; `reads`: all of them are reads, or none."""
        chance = np.random.default_rng(start)
        times = np.arange(start, start + count)
        do = np.where(times % self.period == self.period - 1, READ, UPDATE)
        if reads is not None:
            do[:] = READ if reads else UPDATE
        offsets = np.concatenate([[0], np.cumsum(np.where(do == READ, KEYS_READ, 0))]).astype(np.int32)
        keys = pa.array(chance.integers(0, self.keys, offsets[-1]))
        return pa.table(
            {
                "ts": times,
                "do": do,
                "key": chance.integers(0, self.keys, count),
                "number": chance.integers(0, 1_000_000, count),
                "keys": pa.ListArray.from_arrays(pa.array(offsets), keys),
            }
        )
