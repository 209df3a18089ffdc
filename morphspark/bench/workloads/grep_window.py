"""Grep & Sum with windows: updates of random keys, and one read of a window over many keys in each period.

Time is counted in events. A record's value is float64, whose sums are the dearest, as they are exact. Who reads:

    event      an event that brings random keys, in the place of one update of each period
    trigger    `@app.every(period)`, over keys that were drawn when the app was made
    each       `@app.every(period, each=records)`: every key by itself
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import morphspark as ms
from morphspark.bench.work import FREE, Cost, work

UPDATE, READ = 0, 1


@dataclass(frozen=True)
class GrepWindow:
    keys: int
    size: int  # of the window, in events
    period: int  # one read in so many events
    cost: Cost = FREE  # of an update
    reader: str = "event"
    keys_read: int = 100  # by one read

    def app(self) -> ms.App:
        app = ms.App("grep_window", order_by="ts")
        records = app.table("records", key="int64", columns={"value": "float64"}, default={"value": 0.0})

        @app.on(do=UPDATE)
        def update(e: Any) -> None:
            records[e.key].value = work(e.number, self.cost) * 0.1

        if self.reader == "event":

            @app.on(do=READ)
            def read(e: Any) -> Any:
                return {"sum": ms.window([records[k] for k in ms.each(e.keys)], self.size).value.sum()}

        elif self.reader == "trigger":
            drawn = self._drawn(np.random.default_rng(0), 1).tolist()

            @app.every(self.period, window=self.size)
            def watch(w: Any) -> Any:
                return {"sum": ms.window([records[k] for k in drawn], self.size).value.sum()}

        else:

            @app.every(self.period, window=self.size, each=records)
            def watch_each(w: Any) -> Any:
                return {"record": w.key, "sum": records[w.key].over(self.size).value.sum()}

        return app

    def events(self, start: int, count: int) -> pa.Table:
        chance = np.random.default_rng(start)
        times = np.arange(start, start + count)
        table = {
            "ts": times,
            "do": np.zeros(count, np.int64),
            "key": chance.integers(0, self.keys, count),
            "number": chance.integers(0, 1_000_000, count),
        }
        if self.reader == "event":
            reads = times % self.period == self.period - 1
            table["do"] = np.where(reads, READ, UPDATE)
            keys = self._drawn(chance, int(reads.sum()))
            ends = np.cumsum(reads) * min(self.keys_read, self.keys)
            offsets = np.concatenate([[0], ends]).astype(np.int32)
            table["keys"] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(keys))
        return pa.table(table)

    def _drawn(self, chance: np.random.Generator, reads: int) -> np.ndarray:
        """Keys for so many reads, one after the other; a read has no key twice."""
        count = min(self.keys_read, self.keys)
        drawn = [chance.choice(self.keys, count, replace=False) for _ in range(reads)]
        return np.concatenate([np.empty(0, np.int64), *drawn])
