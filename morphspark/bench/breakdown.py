"""`morphspark bench breakdown`: where the execute stage's time goes, and how fast planning is.

Streaming Ledger. The six parts are those of `morphspark.metrics.parts`: milliseconds of all threads together, which add
up to the time on the clock × threads. Every unit is timed, which slows small ones down. Planning is measured on one
thread at C = 0, with nothing timed: from resolved slots to the graph of operations with all its edges, and to that of
whole transactions.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from morphspark.bench import chart, lineup, observe
from morphspark.bench.contest import Outcome, contest
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import add_rows
from morphspark.bench.table import text_table
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.ledger import Ledger

COST_US = 1.0
ABORTS = 0.1
# Planning ends with who waits for whom: operations (TD, PD, LD), or whole transactions.
OPERATIONS, TRANSACTIONS = "ns-explore/f-schedule/e-abort", "s-explore-bfs/t-schedule/e-abort"


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
    if all(value is None for own in parts.values() for value in own.values()):
        report.notes.append(f"the parts of the time are {observe.NOT_MEASURED}")
    lengths = {
        part: {name: own[part] or 0.0 for name, own in parts.items() if own[part] is not None}
        for part in observe.BREAKDOWN
    }
    execute = {name: statistics.median(outcome.seconds(name)) * 1e3 for name in outcome.samples}
    measured = any(lengths.values())
    report.charts.append(chart.Bars("time of a batch", lengths if measured else {"execute stage": execute}, "ms"))
    report.bar("plan_mops_per_core", _plan_mops(planned, OPERATIONS), 40)
    report.bar("plan_mops_per_core_of_transactions", _plan_mops(planned, TRANSACTIONS), None)
    return report


def _parts(outcome: Outcome, name: str) -> dict[str, float | None]:
    """Medians of a batch; None where not measured."""
    batches = [observe.breakdown(sample.record) for sample in outcome.samples[name]]
    medians: dict[str, float | None] = {}
    for part in observe.BREAKDOWN:
        values = [value for batch in batches if (value := batch[part]) is not None]
        medians[part] = round(statistics.median(values), 4) if values else None
    return medians


def _table(outcome: Outcome, parts: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    rows = []
    for name, own in parts.items():
        execute_ms = statistics.median(sample.record["core_execute_ms"] for sample in outcome.samples[name])
        rows.append([name, f"{execute_ms:.2f}", *(observe.figure(value, 2) for value in own.values())])
    title = f"Streaming Ledger, θ 0.2, {ABORTS:.0%} aborts, C = {COST_US:g} µs: ms of a batch"
    return [title, *text_table(["", "execute stage", *observe.BREAKDOWN], rows)]


def _plan_mops(outcome: Outcome, name: str) -> float | None:
    ratios = [
        observe.ratio(sample.record, observe.PLAN_OPERATIONS, observe.PLAN_MS) for sample in outcome.samples[name]
    ]
    per_ms = [ratio for ratio in ratios if ratio is not None]
    return statistics.median(per_ms) / 1e3 if per_ms else None
