"""`morphspark bench abort`: eager and lazy aborts, over the cost C of a write and the share a of aborts.

Grep & Sum with two operations per transaction; who aborts does so in the second, when the first has written.
"""

from __future__ import annotations

from morphspark.bench import lineup
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import Axis, Point, sweep
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.grep_sum import GrepSum

COSTS_US = (0.0, 0.3, 1.0, 10.0)
SHARES = (0.0, 0.1, 0.3, 0.6, 0.9)
COST_US, SHARE = 1.0, 0.3  # while the other is varied


def run(scale: Scale) -> Report:
    report = Report("abort")
    names = [lineup.SERIAL, lineup.TSTREAM, *lineup.space()]

    def point(label: str, cost_us: float, share: float) -> Point:
        cost = cost_of("branchy", cost_us)
        workload = GrepSum(scale.count(10_240), scale.count(10_000), aborts=share, length=2, cost=cost)
        return Point(label, workload.workload, {"cost_us": cost_us, "aborts": share})

    costs = [point(f"C {cost:g}", cost, SHARE) for cost in scale.first(COSTS_US, quick=3)]
    shares = [point(f"a {share:.0%}", COST_US, share) for share in scale.spread(SHARES, quick=3)]
    axes = [
        Axis(f"Grep & Sum over the cost of a write in µs (a = {SHARE:.0%})", costs, "cost of a write in µs"),
        Axis(f"Grep & Sum over the share of aborts (C = {COST_US:g} µs)", shares, "share of aborts"),
    ]
    sweep(report, axes, names, scale)
    return report
