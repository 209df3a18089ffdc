"""`morphspark bench nested`: two groups of transactions in one batch, with one strategy for both or one each.

Toll Processing with a busy region (skewed, half of the transactions abort) and a quiet one (even, few abort). The
strategies are those of the MorphStream paper for such groups:

    plain-1    what suits the busy region, for all: ns-explore, chains, lazy aborts
    plain-2    what suits the quiet region, for all: s-explore, chains, eager aborts
    nested     plain-1 for the busy region, plain-2 for the quiet one

Where chains are not there as a unit, whole transactions take their place.
"""

from __future__ import annotations

from morphspark.bench import lineup
from morphspark.bench.contest import EVEN
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import Point, rates_chart, rates_table, sweep
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.toll_processing import TollProcessing

NESTED = "nested"
COSTS_US = (1.0, 0.0, 10.0)
INTERVAL = 40_960


def run(scale: Scale) -> Report:
    report = Report("nested")
    plain = [_plain("ns-explore", "l-abort"), _plain("s-explore-bfs", "e-abort")]
    names = [lineup.AUTO, lineup.SERIAL, NESTED, *plain, lineup.TSTREAM, "pat"]

    def point(cost_us: float) -> Point:
        workload = TollProcessing(scale.count(INTERVAL), cost=cost_of("branchy", cost_us))
        return Point(f"C {cost_us:g}", workload.workload, {"cost_us": cost_us})

    points = [point(cost_us) for cost_us in scale.first(COSTS_US, quick=2)]
    outcomes = sweep(report, points, names, scale)
    title = "Toll Processing, a busy and a quiet region"
    report.tables = rates_table(f"{title}, T = {INTERVAL:,}", outcomes, names)
    report.charts.append(rates_chart(title, outcomes, names, "cost of a write in µs"))
    report.notes.append(f"plain-1 is {plain[0]}, plain-2 is {plain[1]}")
    report.not_there(lineup.missing(names))
    outcome = outcomes[points[0].label]
    there = lineup.there(NESTED)
    report.bar("nested_vs_plain", outcome.speedup(NESTED, outcome.best(plain), EVEN) if there else None, None)
    return report


def _plain(exploration: str, abort: str) -> str:
    chains, transactions = (f"{exploration}/{unit}/{abort}" for unit in ("c-schedule", "t-schedule"))
    return chains if lineup.there(chains) else transactions
