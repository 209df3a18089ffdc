"""`morphspark bench scaling`: 1 to n threads, beside two threads that share nothing.

Streaming Ledger, θ 0.2, C = 10 µs a write of the kind that does not vectorise. Two serial engines in two threads tell
what two cores of this machine can do at all: `parallel_efficiency` is the share of it that the best strategy reaches
with two threads. The best is picked on odd turns and compared on even ones. `speedup_of_graph` is work / span: what any
number of cores could reach.
"""

from __future__ import annotations

import functools
import sys

import morphspark as ms
from morphspark.bench import chart, lineup
from morphspark.bench.contest import EVEN, Outcome, TwoEngines, contest
from morphspark.bench.lineup import Entrant
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import add_rows
from morphspark.bench.table import rate, text_table
from morphspark.bench.work import cost_of
from morphspark.bench.workloads.ledger import Ledger
from morphspark.bench.workloads.workload import Workload

COST_US = 10.0
INDEPENDENT = "two threads that share nothing"
IDLE_SPEEDUP = 1.5  # of those; with less, the machine has other things to do, or one core


def run(scale: Scale) -> Report:
    report = Report("scaling")
    space = lineup.space(aborts=["e-abort"])
    names = [lineup.AUTO, *lineup.LITERATURE, *space]
    threads = _thread_counts(ms.Config().thread_count)
    everybody = [Entrant(lineup.SERIAL, lineup.SERIAL, 1)]
    others = [name for name in space if "/t-schedule/" in name] if scale.quick else space
    for count in threads:
        own = names if count == 2 else [lineup.AUTO, *others]
        everybody += [Entrant(_name(name, count), name, count) for name in own]
    events = scale.count(5_120 if scale.quick else 10_240)
    workload = Ledger(events, scale.count(100_000), cost=cost_of("branchy", COST_US)).workload()
    with ProgressBar(1) as bar:
        bar.step("taking turns")
        pair = functools.partial(TwoEngines, INDEPENDENT)
        outcome = contest(workload, everybody, scale, scale.turns(), bar, others=[pair])
    for entrant in [*everybody, Entrant(INDEPENDENT, lineup.SERIAL, 2)]:
        speedup = round(outcome.speedup(entrant.name, lineup.SERIAL), 3)
        add_rows(report, outcome, {"threads": entrant.threads, "speedup": speedup}, [entrant])
    report.tables = _table(outcome, names, threads)
    report.charts.append(_chart(outcome, names, threads))
    best = outcome.best([_name(name, 2) for name in names if name != lineup.AUTO])
    report.notes.append(f"the best with 2 threads is {best}")
    possible = outcome.speedup(INDEPENDENT, lineup.SERIAL, EVEN)
    idle = possible >= IDLE_SPEEDUP
    if not idle:
        report.notes.append(f"{INDEPENDENT} are {possible:.2f} × as fast as one: no second core was free to measure on")
    report.bar("parallel_efficiency", outcome.speedup(best, INDEPENDENT, EVEN) if idle else None, 0.9)
    report.bar("speedup_of_best", outcome.speedup(best, lineup.SERIAL, EVEN), None)
    report.bar("speedup_of_independent_threads", possible, None)
    report.bar("speedup_of_graph", _speedup_of_graph(workload), None)
    return report


def _thread_counts(cores: int) -> list[int]:
    """1, 2, 4, … and all; 2 also on one core, as the bar is about two."""
    counts = {1, 2, cores}
    doubled = 4
    while doubled < cores:
        counts.add(doubled)
        doubled *= 2
    return sorted(counts)


def _name(strategy: str, threads: int) -> str:
    return f"{strategy} × {threads}"


def _table(outcome: Outcome, names: list[str], threads: list[int]) -> list[str]:
    def cell(name: str) -> str:
        speedup = _speedup(outcome, name)
        return "–" if speedup is None else f"{rate(outcome.rate(name))} ({speedup:.2f} ×)"

    rows = [[lineup.SERIAL, cell(lineup.SERIAL), *("" for _ in threads[1:])]]
    for name in names:
        rows.append([name, *(cell(_name(name, count)) for count in threads)])
    rows.append([INDEPENDENT, *(cell(INDEPENDENT) if count == 2 else "" for count in threads)])
    header = [
        "  events/s, execute stage (× serial)",
        *(f"{count} thread{'s' if count > 1 else ''}" for count in threads),
    ]
    return [f"Streaming Ledger, θ 0.2, C = {COST_US:g} µs branchy", *text_table(header, rows)]


def _chart(outcome: Outcome, names: list[str], threads: list[int]) -> chart.Lines:
    lines = {name: [_speedup(outcome, _name(name, count)) for count in threads] for name in names}
    lines[INDEPENDENT] = [_speedup(outcome, INDEPENDENT) if count == 2 else None for count in threads]
    return chart.Lines("speed-up over serial", threads, lines, "threads", "× serial")


def _speedup(outcome: Outcome, name: str) -> float | None:
    """Over serial; None for who was not measured with so many threads."""
    return outcome.speedup(name, lineup.SERIAL) if name in outcome.samples else None


def _speedup_of_graph(workload: Workload) -> float:
    """Work / span: what any number of cores could reach."""
    with workload.open(ms.Config()) as engine:
        return engine.explain(workload.batch(0)).speedup(sys.maxsize)
