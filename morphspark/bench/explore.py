"""`morphspark bench explore`: how the graph is explored, over the punctuation interval T and the skew θ.

Grep & Sum with its defaults: one write of the sum of two rows. With strata and barriers (BFS), strata without (DFS), or
join counters and stealing (ns), each with every unit.
"""

from __future__ import annotations

from morphspark.bench import lineup
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import Axis, Point, sweep
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.grep_sum import GrepSum

COST_US = 1.0
INTERVALS = (640, 2_560, 10_240, 40_960, 81_920)
SKEWS = (0.0, 0.4, 0.8, 1.0)


def run(scale: Scale) -> Report:
    report = Report("explore")
    names = [lineup.SERIAL, *lineup.space(aborts=["e-abort"])]
    cost = cost_of("branchy", COST_US)

    def point(label: str, events: int, theta: float) -> Point:
        knobs = GrepSum(scale.count(events), scale.count(10_000), theta, aborts=0.0, cost=cost)
        return Point(label, knobs.workload, {"interval": events, "theta": theta})

    intervals = [point(f"T {events:,}", events, 0.2) for events in scale.spread(INTERVALS, quick=3)]
    skews = [point(f"θ {theta}", 10_240, theta) for theta in scale.spread(SKEWS, quick=3)]
    title = f"Grep & Sum, C = {COST_US:g} µs"
    axes = [
        Axis(f"{title}, over the punctuation interval (θ 0.2)", intervals, "punctuation interval"),
        Axis(f"{title}, over skew (T 10,240)", skews, "skew"),
    ]
    sweep(report, axes, names, scale)
    return report
