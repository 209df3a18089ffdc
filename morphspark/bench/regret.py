"""`morphspark bench regret`: what `auto` loses against the best fixed strategy, over a grid of workloads.

The best is picked on odd turns and compared on even ones. Who takes 1.3 times the fastest's time in a trial is not
measured further on that workload: it is not the best.

A workload's ratio is the median over turns: turns in which `auto` tries something else cost nothing in it if they are
fewer than half. Figures `…_of_totals` compare the time of all even turns together, so that trials cost what they took.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from morphspark.bench import chart, lineup
from morphspark.bench.contest import EVEN, contest
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import add_rows, usual_decision
from morphspark.bench.table import rate, text_table
from morphspark.bench.workloads.grid import Entry, grid

DROP_BEYOND = 1.3
GOOD = 0.90
BARS = {"mean": 0.95, "share_090": 0.93, "min": 0.80}


class _Compared(NamedTuple):
    workload: str
    ratio: float  # auto's speed as a share of the best's
    ratio_of_totals: float
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
    bars = {one.workload: one.ratio for one in compared}
    report.charts.append(chart.Bars("auto against the best fixed strategy", {"share": bars}, "share of its throughput"))
    for name, value in _summary([one.ratio for one in compared]).items():
        report.bar(name, value, BARS[name])
    for name, value in _summary([one.ratio_of_totals for one in compared]).items():
        report.bar(f"{name}_of_totals", value, None)
    return report


def _summary(ratios: Sequence[float]) -> dict[str, float]:
    good = sum(ratio >= GOOD for ratio in ratios)
    return {"mean": statistics.mean(ratios), "share_090": good / len(ratios), "min": min(ratios)}


def _compare(entry: Entry, scale: Scale, of: int, bar: ProgressBar, report: Report) -> _Compared:
    bar.step(entry.label)
    everybody = lineup.entrants([lineup.AUTO, *lineup.distinct()])
    outcome = contest(entry.make(), everybody, scale, scale.turns(of), bar, drop_beyond=DROP_BEYOND)
    best = outcome.best(lineup.distinct())
    ratio = outcome.speedup(lineup.AUTO, best, EVEN)
    of_totals = outcome.speedup_of_totals(lineup.AUTO, best, EVEN)
    shown = lineup.entrants([lineup.AUTO, best])
    ratios = {"ratio": round(ratio, 3), "ratio_of_totals": round(of_totals, 3)}
    add_rows(report, outcome, {"workload": entry.label, **ratios, "dropped": outcome.dropped}, shown)
    decision = usual_decision(outcome, lineup.AUTO)
    return _Compared(entry.label, ratio, of_totals, decision, best, outcome.rate(lineup.AUTO), outcome.rate(best))


def _table(compared: list[_Compared]) -> list[str]:
    """The worst last, where eyes are."""
    rows = []
    for one in sorted(compared, key=lambda one: -one.ratio):
        ratios = [f"{one.ratio:.2f}", f"{one.ratio_of_totals:.2f}"]
        rows.append([one.workload, *ratios, rate(one.auto_rate), rate(one.best_rate), one.decision, one.best])
    header = ["workload", "auto/best", "of totals", "auto, events/s", "best", "auto decided", "best fixed strategy"]
    return text_table(header, rows)
