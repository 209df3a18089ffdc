"""`morphspark bench regret`: what `auto` loses against the best fixed strategy, over a grid of workloads.

The best is picked on odd turns and compared on even ones. Who takes 1.3 times the fastest's time in a trial is not
measured further on that workload: it is not the best.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

from morphspark.bench import chart, lineup
from morphspark.bench.contest import EVEN, contest
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import add_rows, rates, usual_decision
from morphspark.bench.table import rate, text_table
from morphspark.bench.workloads.grid import Entry, grid

DROP_BEYOND = 1.3
GOOD = 0.90


class _Compared(NamedTuple):
    workload: str
    ratio: float  # auto's speed as a share of the best's
    decision: str
    best: str
    auto_rate: float
    best_rate: float


def run(scale: Scale) -> Report:
    report = Report("regret")
    entries = scale.first(grid(scale), quick=12)
    with ProgressBar(len(entries)) as bar:
        compared = [_compare(entry, scale, len(entries), bar, report) for entry in entries]
    report.tables = _table(compared)
    ratios = [one.ratio for one in compared]
    bars = {one.workload: one.ratio for one in compared}
    report.charts.append(chart.Bars("auto against the best fixed strategy", {"share": bars}, "share of its throughput"))
    report.bar("mean", statistics.mean(ratios), 0.95)
    report.bar("share_090", sum(ratio >= GOOD for ratio in ratios) / len(ratios), 0.93)
    report.bar("min", min(ratios), 0.80)
    return report


def _compare(entry: Entry, scale: Scale, of: int, bar: ProgressBar, report: Report) -> _Compared:
    bar.step(entry.label)
    everybody = lineup.entrants([lineup.AUTO, *lineup.fixed()])
    outcome = contest(entry.make(), everybody, scale, scale.turns(of), bar, drop_beyond=DROP_BEYOND)
    best = outcome.best(lineup.fixed())
    ratio = outcome.speedup(lineup.AUTO, best, EVEN)
    own = rates(outcome)
    shown = lineup.entrants([lineup.AUTO, best])
    add_rows(report, outcome, {"workload": entry.label, "ratio": round(ratio, 3)}, shown)
    decision = usual_decision(outcome, lineup.AUTO)
    return _Compared(entry.label, ratio, decision, best, own[lineup.AUTO], own[best])


def _table(compared: list[_Compared]) -> list[str]:
    """The worst last, where eyes are."""
    rows = [
        [one.workload, f"{one.ratio:.2f}", rate(one.auto_rate), rate(one.best_rate), one.decision, one.best]
        for one in sorted(compared, key=lambda one: -one.ratio)
    ]
    return text_table(["workload", "auto/best", "auto, events/s", "best", "auto decided", "best fixed strategy"], rows)
