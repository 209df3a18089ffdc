"""`morphspark bench sl-schemes`: every strategy and scheme on Streaming Ledger, over the cost C of a write.

String keys, 100 k accounts and assets, T = 10,240, 1 % aborts. `nolock` bounds what a scheme could reach; its results
are wrong.
"""

from __future__ import annotations

from morphspark.bench import lineup
from morphspark.bench.contest import EVEN, Outcome
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import Axis, Point, sweep
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.ledger import Ledger

FREE_POINT, VECTOR_POINT = ("smooth", 0.0, 0.2), ("smooth", 1.0, 0.2)  # those of the bars
QUICK_POINTS = [FREE_POINT, VECTOR_POINT, ("branchy", 1.0, 0.2)]
FULL_POINTS = [
    FREE_POINT,
    ("smooth", 0.1, 0.2),
    VECTOR_POINT,
    ("smooth", 10.0, 0.2),
    ("branchy", 0.1, 0.2),
    ("branchy", 1.0, 0.2),
    ("branchy", 10.0, 0.2),
    ("smooth", 0.0, 0.99),
    ("smooth", 1.0, 0.99),
    ("branchy", 1.0, 0.99),
]


def run(scale: Scale) -> Report:
    report = Report("sl-schemes")
    names = [lineup.AUTO, *lineup.fixed(), lineup.NOLOCK]
    wanted = scale.first(QUICK_POINTS, quick=3) if scale.quick else FULL_POINTS
    points = [_point(scale, *point) for point in wanted]
    axis = Axis("Streaming Ledger, all schemes", points, "cost of a write, skew")
    outcomes = sweep(report, [axis], names, scale)
    free = outcomes[_label(*FREE_POINT)]
    report.bar("auto_vs_serial", free.speedup(lineup.AUTO, lineup.SERIAL), 0.95)
    report.bar("v_vs_serial", _best_of_unit(outcomes[_label(*VECTOR_POINT)], "v-schedule"), 5)
    return report


def _best_of_unit(outcome: Outcome, unit: str) -> float:
    return outcome.speedup(outcome.best(lineup.space(units=[unit])), lineup.SERIAL, EVEN)


def _point(scale: Scale, kind: str, cost_us: float, theta: float) -> Point:
    def make():
        cost = cost_of(kind, cost_us)
        return Ledger(scale.count(10_240), scale.count(100_000), theta, cost=cost).workload()

    return Point(_label(kind, cost_us, theta), make, {"cost_us": cost_us, "kind": kind, "theta": theta})


def _label(kind: str, cost_us: float, theta: float) -> str:
    cost = f"C {cost_us:g} {kind}" if cost_us else "C 0"
    return cost if theta == 0.2 else f"{cost} θ {theta}"
