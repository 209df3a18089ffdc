"""Grep & Sum over lists, as TStream has it: a transaction reads all rows of a list and sums them, or writes them all.

Integer keys: their lookup is not the subject. No transaction aborts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import morphspark as ms
from morphspark.bench.work import FREE, Cost, work
from morphspark.bench.workloads.grep_sum import initial_records
from morphspark.bench.workloads.keys import zipf_keys
from morphspark.bench.workloads.workload import Workload


@dataclass(frozen=True)
class GrepLists:
    events: int = 10_240
    keys: int = 10_000
    theta: float = 0.6
    length: int = 10
    readers: float = 0.5  # the other transactions write
    cost: Cost = FREE
    seed: int = 7

    def workload(self) -> Workload:
        return Workload(build(self.cost), {"records": initial_records(self.keys)}, self.events, self.generate)

    def generate(self, rows: int, first: int) -> pa.Table:
        random = np.random.default_rng([self.seed, first])
        keys = zipf_keys(random, rows * self.length, self.keys, self.theta)
        offsets = np.arange(rows + 1, dtype=np.int32) * self.length
        return pa.table(
            {
                "ts": np.arange(first, first + rows),
                "reads": (random.random(rows) < self.readers).astype(np.int64),
                "keys": pa.ListArray.from_arrays(pa.array(offsets), pa.array(keys)),
                "value": random.integers(0, 100, rows),
            }
        )


def build(cost: Cost) -> ms.App:
    events = {"ts": "int64", "reads": "int64", "keys": "list<int64>", "value": "int64"}
    app = ms.App("grep_lists", order_by="ts", events=events)
    records = app.table("records", key="int64", columns={"value": "int64"}, default={"value": 0})

    @app.on(reads=1)
    def read_all(e: Any) -> Any:
        return {"total": ms.sum(records[key].value for key in ms.each(e.keys))}

    @app.on(reads=0)
    def write_all(e: Any) -> None:
        for key in ms.each(e.keys):
            row = records[key]
            row.value = work(row.value + e.value, cost)

    return app
