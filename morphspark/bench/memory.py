"""`morphspark bench memory`: bytes of the graph and of versions, and the peak of an epoch, beside `serial`.

Streaming Ledger, T = 10,240, 10 k accounts and assets. The peak is that of a fresh process's resident memory, from
before the engine is opened to after the last batch: it has the tables and every buffer in it. Arrow takes its memory
from the system there; its own pool keeps as much in reserve as the engine needs, at its own times.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from morphspark.bench import chart, lineup
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.table import text_table

BATCHES = 8
NESTED = {"nested": {"deposit": "s-explore-bfs/v-schedule/e-abort", "transfer": "s-explore-dfs/c-schedule/l-abort"}}
# Those that take the most of their kind: all that `--quick` looks at.
HUNGRY = (
    lineup.TSTREAM,
    "ns-explore/f-schedule/l-abort",
    "s-explore-dfs/c-schedule/l-abort",
    "ns-explore/c-schedule/l-abort",
    "s-explore-bfs/v-schedule/e-abort",
)

Probes = Mapping[str, Sequence[Mapping[str, Any]]]


def run(scale: Scale) -> Report:
    report = Report("memory")
    names = _names(scale)
    # Which thread allocates first is chance, and moves a peak by 8 %: no fewer repeats tell two strategies apart.
    probes = _probe(scale, names, repeats=scale.pick(full=7, quick=7, tiny=1))
    for name, own in probes.items():
        report.rows.append({"name": name, "events": scale.count(10_240), **_figures(own)})
    report.tables = _table(report.rows)
    peaks = {row["name"]: row["peak_bytes"] for row in report.rows}
    report.charts.append(
        chart.Bars("peak of an epoch", {"bytes": {name: peak / 1e6 for name, peak in peaks.items()}}, "MB")
    )
    worst = max((name for name in names if name != lineup.SERIAL), key=lambda name: peaks[name])
    report.notes.append(f"the most memory takes {worst}")
    report.bar("peak_vs_serial", peaks[worst] / peaks[lineup.SERIAL], 1.4, at_most=True)
    report.bar("graph_bytes_per_operation", _largest(report.rows, "graph_bytes_per_operation"), None)
    report.bar("bytes_per_version", _largest(report.rows, "bytes_per_version"), None)
    return report


def _names(scale: Scale) -> list[str]:
    if scale.shrink > 1:
        return [lineup.SERIAL, *NESTED]
    if scale.quick:
        return [lineup.AUTO, lineup.SERIAL, *HUNGRY, *NESTED]
    return [lineup.AUTO, *lineup.fixed(), *NESTED]


def _probe(scale: Scale, names: Sequence[str], repeats: int) -> Probes:
    """Each in a process of its own, in turns."""
    probes: dict[str, list[Any]] = {name: [] for name in names}
    sizes = [str(size) for size in (scale.count(10_240), scale.count(10_000), BATCHES)]
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    with ProgressBar(repeats * len(names)) as bar:
        for _ in range(repeats):
            for name in names:
                bar.step(name)
                strategy = json.dumps(NESTED.get(name, name))
                command = [sys.executable, "-m", "morphspark.bench.memory_probe", strategy, *sizes]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
                probes[name].append(json.loads(done.stdout))
    return probes


def _figures(probes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    record = probes[-1]["record"]
    return {
        "peak_bytes": round(statistics.median(probe["resident_bytes"] for probe in probes)),
        "graph_and_version_bytes": record["peak_bytes"],
        "graph_bytes_per_operation": _per_operation(record, "graph_bytes"),
        # In this workload every operation writes, and so makes a version.
        "bytes_per_version": _per_operation(record, "version_bytes"),
        "repeats": len(probes),
    }


def _per_operation(record: Mapping[str, Any], size: str) -> float | None:
    """None where nothing was planned."""
    return record[size] / record["plan_operations"] if record["plan_operations"] else None


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [
        [
            row["name"],
            f"{row['peak_bytes'] / 1e6:.1f}",
            _figure(row["graph_and_version_bytes"] / 1e6),
            _figure(row["graph_bytes_per_operation"]),
            _figure(row["bytes_per_version"]),
        ]
        for row in rows
    ]
    header = ["", "peak of the process, MB", "graph and versions, MB", "graph, bytes/operation", "bytes/version"]
    return ["Streaming Ledger, T = 10,240: what an engine adds", *text_table(header, cells)]


def _figure(value: float | None) -> str:
    return f"{value:,.1f}" if value else "–"


def _largest(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    return max(row[key] for row in rows if row[key] is not None)
