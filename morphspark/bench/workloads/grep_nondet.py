"""Grep & Sum with keys that only the run knows: the written key is a function of values that are read.

    sum       writes to a row the sum of itself and of another row, as in Grep & Sum
    jump      reads two rows as well, and writes the sum to a row that the sum itself chooses

`share` is that of `jump`. Where jumps go depends on rows that other transactions of the batch write. With `among` the
event names CANDIDATES rows, and the sum chooses one of them; without, it may be any row of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import morphspark as ms
from morphspark.bench.work import FREE, Cost, work
from morphspark.bench.workloads.grep_sum import ANY_SUM, MODULUS, NO_SUM, initial_records
from morphspark.bench.workloads.keys import zipf_keys
from morphspark.bench.workloads.workload import Workload

CANDIDATES = 4
COLUMNS = ("ts", "jump", "a", "b", "limit", "first", "choices")


@dataclass(frozen=True)
class GrepNondet:
    events: int = 10_240
    keys: int = 10_000
    share: float = 0.1
    among: bool = False
    theta: float = 0.2
    aborts: float = 0.01
    cost: Cost = FREE
    seed: int = 7

    def workload(self) -> Workload:
        app = build(self.among, self.cost)
        return Workload(app, {"records": initial_records(self.keys)}, self.events, self.generate)

    def generate(self, rows: int, first: int) -> pa.Table:
        random = np.random.default_rng([self.seed, first])
        a, b, low = zipf_keys(random, (3, rows), self.keys, self.theta)
        low = np.minimum(low, self.keys - CANDIDATES)
        columns = {
            "ts": np.arange(first, first + rows),
            "jump": (random.random(rows) < self.share).astype(np.int64),
            "a": a,
            "b": b,
            "limit": np.where(random.random(rows) < self.aborts, NO_SUM, ANY_SUM),
            "first": low if self.among else np.zeros(rows, np.int64),
            "choices": np.full(rows, CANDIDATES if self.among else self.keys),
        }
        table = pa.table(columns)
        if self.among:
            named = (low[:, None] + np.arange(CANDIDATES)).ravel()
            offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * CANDIDATES)
            table = table.append_column("candidates", pa.ListArray.from_arrays(offsets, pa.array(named)))
        return table


def build(among: bool, cost: Cost) -> ms.App:
    types = dict.fromkeys(COLUMNS, "int64") | ({"candidates": "list<int64>"} if among else {})
    app = ms.App("grep_nondet", order_by="ts", events=types)
    records = app.table("records", key="int64", columns={"value": "int64"}, default={"value": 0})

    def sum_of_both(e: Any) -> Any:
        return (records[e.a].value + 1 + records[e.b].value) % MODULUS

    def worked(e: Any, total: Any) -> Any:
        done = work(total, cost)
        ms.require(done <= e.limit, "the sum is above the limit")
        return done

    @app.on(jump=0)
    def sum(e: Any) -> None:
        records[e.a].value = worked(e, sum_of_both(e))

    @app.on(jump=1)
    def jump(e: Any) -> None:
        total = sum_of_both(e)
        key = e.first + total % e.choices
        done = worked(e, total)
        records[ms.key(key, among=e.candidates) if among else key].value = done

    return app
