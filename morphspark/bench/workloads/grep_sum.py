"""Grep & Sum (GS): a transaction of `length` operations, each writes to a row the sum of itself and other rows.

    sum       each operation reads `reads` rows: the one that it writes, and reads - 1 others
    bump      each operation reads only the row that it writes

`multi` is the share of `sum`. Where it is not `cyclic`, an operation writes the row with the largest key of those that
it reads, so that the rows' chains of operations depend on each other in one direction only.

A transaction that aborts does so in its last operation, after the work, when its other writes are done. Sums are
taken modulo a number, or they would overflow within a few batches. Integer keys: their lookup is not the subject.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import morphspark as ms
from morphspark.bench.work import FREE, Cost, work
from morphspark.bench.workloads.keys import zipf_keys
from morphspark.bench.workloads.workload import Workload

MODULUS = 1_000_003
ANY_SUM, NO_SUM = MODULUS, -1  # largest sums that are allowed


@dataclass(frozen=True)
class GrepSum:
    events: int = 10_240
    keys: int = 10_000
    theta: float = 0.2
    aborts: float = 0.01
    length: int = 1
    reads: int = 2
    multi: float = 1.0
    cyclic: bool = True
    cost: Cost = FREE
    seed: int = 7

    def workload(self) -> Workload:
        app = build(self.length, self.reads, self.cost)
        return Workload(app, {"records": initial_records(self.keys)}, self.events, self.generate)

    def generate(self, rows: int, first: int) -> pa.Table:
        random = np.random.default_rng([self.seed, first])
        keys = zipf_keys(random, (rows, self.length, self.reads), self.keys, self.theta)
        if not self.cyclic:
            keys = -np.sort(-keys, axis=2)  # the largest first: it is the one that is written
        multi = random.random(rows) < self.multi
        aborts = random.random(rows) < self.aborts
        columns = {
            column: np.ascontiguousarray(keys[:, operation, index])
            for operation in range(self.length)
            for index, column in enumerate(_columns(operation, self.reads))
        }
        own = {"ts": np.arange(first, first + rows), "multi": multi.astype(np.int64)}
        return pa.table({**own, **columns, "limit": np.where(aborts, NO_SUM, ANY_SUM)})


def initial_records(keys: int) -> pa.Table:
    """Values of many bits: branches that depend on few different values would be predicted."""
    values = np.random.default_rng(keys).integers(0, MODULUS, keys)
    return pa.table({"key": np.arange(keys), "value": values})


def build(length: int, reads: int, cost: Cost) -> ms.App:
    columns = [column for operation in range(length) for column in _columns(operation, reads)]
    app = ms.App("grep_sum", order_by="ts", events=dict.fromkeys(["ts", "multi", *columns, "limit"], "int64"))
    records = app.table("records", key="int64", columns={"value": "int64"}, default={"value": 0})

    def write_sums(e: Any, read: int) -> None:
        for operation in range(length):
            rows = [records[e[column]] for column in _columns(operation, read)]
            total = rows[0].value + 1
            for row in rows[1:]:
                total = total + row.value
            total = work(total % MODULUS, cost)
            if operation == length - 1:
                ms.require(total <= e.limit, "the sum is above the limit")
            rows[0].value = total

    @app.on(multi=1)
    def sum(e: Any) -> None:
        write_sums(e, reads)

    @app.on(multi=0)
    def bump(e: Any) -> None:
        write_sums(e, 1)

    return app


def _columns(operation: int, reads: int) -> list[str]:
    """The keys of an operation; it writes the row of the first."""
    return [f"key_{operation}_{index}" for index in range(reads)]
