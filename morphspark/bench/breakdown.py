"""`morphspark bench breakdown`: where the execute stage's time goes, and how fast planning is.

Streaming Ledger. The six parts are those of `morphspark.metrics.parts`: milliseconds of all threads together, which add
up to the time on the clock × threads. Every unit is timed, which slows small ones down.

Planning is measured on one thread at C = 0, with nothing timed: `plan_mops_per_core` from resolved slots to the edges
between operations, `plan_mops_per_core_of_transactions` to those between whole transactions. What is made of edges
(successors, strata, chains) and versions are in neither: they count as `construct`, of which planning is the beginning.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from morphspark.bench import chart, lineup
from morphspark.bench.contest import Outcome, contest
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import add_rows
from morphspark.bench.table import text_table
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.ledger import Ledger
from morphspark.metrics import PARTS

COST_US = 1.0
ABORTS = 0.1
# Planning ends with who waits for whom: operations (TD, PD, LD), or whole transactions.
OPERATIONS, TRANSACTIONS = "ns-explore/f-schedule/e-abort", "s-explore-bfs/t-schedule/e-abort"
WHAT_PLANNING_IS = (
    "plan_mops_per_core: from resolved slots to the edges between operations (or whole transactions), on one thread;",
    "  successors, strata, chains and versions come after that and count as construct",
)
PARTS_MS = {name.removesuffix("_ms"): name for name in PARTS}


def run(scale: Scale) -> Report:
    report = Report("breakdown")
    everybody = lineup.entrants([lineup.AUTO, *lineup.fixed()], observe=True)
    events, keys = scale.count(10_240), scale.count(100_000)
    with ProgressBar(2) as bar:
        bar.step("time of each strategy")
        costly = Ledger(events, keys, aborts=ABORTS, cost=cost_of("branchy", COST_US)).workload()
        outcome = contest(costly, everybody, scale, scale.turns(2), bar)
        bar.step("planning")
        graphs = lineup.entrants([OPERATIONS, TRANSACTIONS], threads=1)
        planned = contest(Ledger(events, keys).workload(), graphs, scale, scale.turns(2), bar)
    parts = {name: _parts(outcome, name) for name in outcome.samples}
    for entrant in everybody:
        add_rows(report, outcome, {"breakdown_ms": parts[entrant.name]}, [entrant])
    report.tables = _table(outcome, parts)
    lengths = {part: {name: own[part] for name, own in parts.items()} for part in PARTS_MS}
    report.charts.append(chart.Bars("time of a batch", lengths, "ms"))
    report.notes += WHAT_PLANNING_IS
    report.bar("plan_mops_per_core", _plan_mops(planned, OPERATIONS), 40)
    report.bar("plan_mops_per_core_of_transactions", _plan_mops(planned, TRANSACTIONS), None)
    return report


def _parts(outcome: Outcome, name: str) -> dict[str, float]:
    """Medians of a batch."""
    return {part: round(_median(outcome, name, metric), 4) for part, metric in PARTS_MS.items()}


def _median(outcome: Outcome, name: str, metric: str) -> float:
    return statistics.median(sample.record[metric] for sample in outcome.samples[name])


def _table(outcome: Outcome, parts: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = []
    for name, own in parts.items():
        execute_ms = _median(outcome, name, "core_execute_ms")
        rows.append([name, *(f"{value:,.2f}" for value in (execute_ms, *own.values()))])
    title = f"Streaming Ledger, θ 0.2, {ABORTS:.0%} aborts, C = {COST_US:g} µs: ms of a batch"
    return [title, *text_table(["", "execute stage", *PARTS_MS], rows)]


def _plan_mops(outcome: Outcome, name: str) -> float:
    """Millions of operations per second of planning."""
    records = [sample.record for sample in outcome.samples[name]]
    return statistics.median(record["plan_operations"] / record["plan_ms"] for record in records) / 1e3
