"""`morphspark bench granularity`: what is scheduled at once, over cycles, the interval T and reads of several rows.

Grep & Sum; units are an operation (f), the chain of a row's operations (c), a transaction (t), a stratum (v).
"""

from __future__ import annotations

from typing import Any

from morphspark.bench import lineup
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import Axis, Point, sweep
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.grep_sum import GrepSum

COST_US = 1.0
INTERVALS = (640, 2_560, 10_240, 40_960)
SHARES = (0.0, 0.25, 0.5, 1.0)


def run(scale: Scale) -> Report:
    report = Report("granularity")
    names = [lineup.SERIAL, *lineup.space(["s-explore-bfs", "ns-explore"], aborts=["e-abort"])]
    cost = cost_of("branchy", COST_US)

    def point(label: str, events: int = 10_240, **knobs: Any) -> Point:
        workload = GrepSum(scale.count(events), scale.count(10_000), aborts=0.0, cost=cost, **knobs)
        return Point(label, workload.workload, {"interval": events, **knobs})

    cycles = [
        point(f"{'cyclic' if cyclic else 'acyclic'}, l {length}", cyclic=cyclic, length=length)
        for length in scale.spread((1, 4), quick=1)
        for cyclic in (False, True)
    ]
    intervals = [point(f"T {events:,}", events, reads=1) for events in scale.spread(INTERVALS, quick=2)]
    shares = [point(f"{share:.0%}", multi=share, reads=3) for share in scale.spread(SHARES, quick=2)]
    title = f"Grep & Sum, C = {COST_US:g} µs"
    axes = [
        Axis(f"{title}, with and without cycles of chains", cycles, "chains"),
        Axis(f"{title}, over the punctuation interval, reads of one row", intervals, "punctuation interval"),
        Axis(f"{title}, over the share of transactions that read 3 rows", shares, "share of multi-row reads"),
    ]
    sweep(report, axes, names, scale)
    return report
