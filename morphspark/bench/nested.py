"""`morphspark bench nested`: two groups of transactions in one batch, with one strategy for both or one each.

Toll Processing with a busy region (skewed, half of the transactions abort) and a quiet one (even, few abort). The
strategies are those of the MorphStream paper for such groups:

    plain-1    what suits the busy region, for all: ns-explore, chains, lazy aborts
    plain-2    what suits the quiet region, for all: s-explore, chains, eager aborts
    nested     plain-1 for the busy region, plain-2 for the quiet one
"""

from __future__ import annotations

from morphspark.bench import lineup
from morphspark.bench.contest import EVEN
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import Axis, Point, sweep
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.toll_processing import TollProcessing

NESTED = "nested"
PLAIN = ("ns-explore/c-schedule/l-abort", "s-explore-bfs/c-schedule/e-abort")
REGIONS = ("busy_report", "quiet_report")  # in the order of PLAIN
COSTS_US = (0.0, 1.0, 10.0)
INTERVAL = 40_960


def run(scale: Scale) -> Report:
    report = Report("nested")
    names = [lineup.AUTO, lineup.SERIAL, NESTED, *PLAIN, lineup.TSTREAM, "pat"]

    def point(cost_us: float) -> Point:
        workload = TollProcessing(scale.count(INTERVAL), cost=cost_of("branchy", cost_us))
        return Point(f"C {cost_us:g}", workload.workload, {"cost_us": cost_us})

    points = [point(cost_us) for cost_us in scale.first(COSTS_US, quick=2)]
    axis = Axis(f"Toll Processing, a busy and a quiet region, T = {INTERVAL:,}", points, "cost of a write in µs")
    outcomes = sweep(report, [axis], names, scale, {NESTED: dict(zip(REGIONS, PLAIN, strict=True))})
    report.notes.append(f"plain-1 is {PLAIN[0]}, plain-2 is {PLAIN[1]}")
    outcome = outcomes[points[1].label]  # C 1
    report.bar("nested_vs_plain", outcome.speedup(NESTED, outcome.best(PLAIN), EVEN), None)
    return report
