"""Toll Processing (TP) with two regions, whose transactions are of different character.

    speeds(total, reports)  vehicles(count)      of every segment
    report      2 writes: the segment's speed and its vehicles; the toll follows from both

    busy region    few segments are hot, many transactions abort
    quiet region   all segments alike, few abort

A report aborts if it finds more vehicles than its `capacity`, which is after the first write. Averages and counts are
those since the start, not those of the real application's 5-minute windows: transactions that read windows run as a
whole, and this compares strategies that run them in parts.
Integer keys: their lookup is not the subject.
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

EVENTS = dict.fromkeys(["ts", "region", "segment", "speed", "capacity"], "int64")
BUSY, QUIET = 1, 2
ANY_COUNT, NO_COUNT = 1 << 40, -1  # of vehicles that a segment may have
CONGESTED_SPEED, CONGESTED_COUNT = 40, 50  # Linear Road: only slow and full segments cost a toll


@dataclass(frozen=True)
class TollProcessing:
    events: int = 40_960
    segments: int = 100  # the first half is the busy region
    busy_theta: float = 0.8
    busy_aborts: float = 0.5
    quiet_theta: float = 0.0
    quiet_aborts: float = 0.001
    busy_share: float = 0.5  # of the events
    cost: Cost = FREE
    seed: int = 7

    def workload(self) -> Workload:
        return Workload(build(self.cost), {}, self.events, self.generate)

    def generate(self, rows: int, first: int) -> pa.Table:
        random = np.random.default_rng([self.seed, first])
        busy = random.random(rows) < self.busy_share
        half = self.segments // 2
        segment = np.where(
            busy,
            zipf_keys(random, rows, half, self.busy_theta),
            half + zipf_keys(random, rows, self.segments - half, self.quiet_theta),
        )
        aborts = random.random(rows) < np.where(busy, self.busy_aborts, self.quiet_aborts)
        return pa.table(
            {
                "ts": np.arange(first, first + rows),
                "region": np.where(busy, BUSY, QUIET),
                "segment": segment,
                "speed": random.integers(0, 100, rows),
                "capacity": np.where(aborts, NO_COUNT, ANY_COUNT),
            }
        )


def build(cost: Cost) -> ms.App:
    app = ms.App("toll_processing", order_by="ts", events=EVENTS)
    zeros = {"total": 0, "reports": 0}
    speeds = app.table("speeds", key="int64", columns=dict.fromkeys(zeros, "int64"), default=zeros)
    vehicles = app.table("vehicles", key="int64", columns={"count": "int64"}, default={"count": 0})

    def report(e: Any) -> Any:
        speed, cars = speeds[e.segment], vehicles[e.segment]
        speed.total = work(speed.total + e.speed, cost)
        speed.reports += 1
        ms.require(cars.count <= e.capacity, "the segment is full")
        cars.count = work(cars.count + 1, cost)
        congested = (speed.total // speed.reports < CONGESTED_SPEED) & (cars.count > CONGESTED_COUNT)
        beyond = cars.count - CONGESTED_COUNT
        return {"toll": ms.where(congested, 2 * beyond * beyond, 0)}

    @app.on(region=BUSY)
    def busy_report(e: Any) -> Any:
        return report(e)

    @app.on(region=QUIET)
    def quiet_report(e: Any) -> Any:
        return report(e)

    return app
