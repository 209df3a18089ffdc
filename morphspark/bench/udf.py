"""`morphspark bench udf`: what user functions cost, and what grouping their calls gains.

checks    Streaming Ledger, transfers only: the check in built-in operations, compiled, and in Python
model     Streaming Ledger, low contention: transfers are scored by a model that takes numpy arrays; one by one
          (serial, transactions), or for all transactions of a stratum at once (v-schedule)
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from morphspark.bench import lineup
from morphspark.bench.contest import OneEngine, Outcome, contest
from morphspark.bench.lineup import Entrant
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.sweep import add_rows, rates_table
from morphspark.bench.workloads import checked_ledger
from morphspark.bench.workloads.checked_ledger import CheckedLedger

BUILTIN, COMPILED, PYTHON = "built-in", "compiled", "python=True"
CHECKS = {COMPILED: checked_ledger.by_compiled, PYTHON: checked_ledger.by_python}
STRATA = "s-explore-bfs/v-schedule/e-abort"
TRANSACTIONS = "ns-explore/t-schedule/e-abort"
PROBES = 400


def run(scale: Scale) -> Report:
    report = Report("udf")
    with ProgressBar(2) as bar:
        bar.step("checks")
        checks = _checks(report, scale, bar)
        bar.step("model")
        model = _model(report, scale, bar)
    one_row_us, ways = _one_row_us(), [BUILTIN, *CHECKS]
    report.tables = [
        *rates_table("transfers of Streaming Ledger, checked in three ways, under auto", {"SL": checks}, ways),
        "",
        *rates_table(
            f"Streaming Ledger, scored by a model that takes {one_row_us:.0f} µs for one row",
            {"SL": model},
            [lineup.AUTO, STRATA, TRANSACTIONS, lineup.SERIAL],
        ),
    ]
    report.bar("numba_vs_builtin", checks.speedup(COMPILED, BUILTIN), 0.5)
    report.bar("python_vs_builtin", checks.speedup(PYTHON, BUILTIN), None)
    report.bar("model_one_row_us", one_row_us, 20)
    report.bar("vector_vs_per_event", model.speedup(STRATA, lineup.SERIAL), 20)
    report.bar("auto_vs_per_event", model.speedup(lineup.AUTO, lineup.SERIAL), None)
    return report


def _checks(report: Report, scale: Scale, bar: ProgressBar) -> Outcome:
    """The same results, so that only the check differs."""

    def ledger(check: object) -> CheckedLedger:
        return CheckedLedger(check, scale.count(10_240), scale.count(100_000))  # type: ignore[arg-type]

    def entrant(name: str) -> Entrant:
        return Entrant(name, lineup.AUTO)

    others = [
        lambda _, name=name, check=check: OneEngine(entrant(name), ledger(check).workload())
        for name, check in CHECKS.items()
    ]
    workload = ledger(checked_ledger.by_builtin).workload()
    outcome = contest(workload, [entrant(BUILTIN)], scale, scale.turns(2), bar, others)
    add_rows(report, outcome, {"workload": "checks"}, [entrant(name) for name in (BUILTIN, *CHECKS)])
    return outcome


def _model(report: Report, scale: Scale, bar: ProgressBar) -> Outcome:
    who = lineup.entrants([lineup.AUTO, lineup.SERIAL, STRATA, TRANSACTIONS])
    ledger = CheckedLedger(checked_ledger.by_model, scale.count(10_240), scale.count(100_000), transfers=0.5)
    outcome = contest(ledger.workload(), who, scale, scale.turns(2), bar)
    add_rows(report, outcome, {"workload": "model"}, who)
    return outcome


def _one_row_us() -> float:
    """What the model takes for one row, called from Python."""
    row = [np.array([value], np.int64) for value in (1_000_000_000, 50, 1_000_000_000)]
    spent = []
    for _ in range(PROBES):
        started = time.perf_counter()
        checked_ledger.score(*row)
        spent.append(time.perf_counter() - started)
    return statistics.median(spent) * 1e6
