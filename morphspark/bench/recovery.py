"""`morphspark bench recovery`: what durability costs while all goes well, and how long it takes when it did not.

log           Streaming Ledger through Spark at 100 k-event batches, durable with fsync, beside the same sink with
              log="none", which keeps nothing: two queries that take turns
recovery      a million rows with string keys in a snapshot, then 100 epochs of 10 k events: the time of app.open,
              in a process of its own, with the files out of the operating system's cache. Changed rows (delta) and
              commands, and the bytes that each logs
snapshots     an engine on such rows whose snapshots come and go: epochs with one under way beside epochs without
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.queries import bench_session, ledger_sink, take_turns
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.durable.directory import StateDirectory
from morphspark.progress import percentile

ROWS = 1_000_000  # half of them accounts, half assets
EPOCH_EVENTS = 10_000
NEVER = 1 << 40  # epochs between two snapshots
SNAPSHOT_EVERY = 400  # epochs; a snapshot takes a third to a half of them


def run(scale: Scale) -> Report:
    report = Report("recovery")
    measure_log(report, batches=6 if scale.quick else 48, warm_up=6 if scale.quick else 16)
    measure_recovery(report, rows=ROWS, epochs=100, repeats=3 if scale.quick else 7)
    measure_snapshots(report, rows=ROWS, fewest=100 if scale.quick else 500)
    report.tables = [_line(row) for row in report.rows]
    return report


# ----------------------------------------------------------------------------------------------------------- the log


def measure_log(report: Report, batches: int, warm_up: int) -> None:
    events = 100_000
    bodies = {
        "durable sink": partial(ledger_sink, config=ms.Config()),
        "in-memory sink": partial(ledger_sink, config=ms.Config(log="none")),
    }
    with bench_session("recovery") as spark:
        seconds = take_turns(spark, bodies, events, warm_up, batches)
    rates = {name: report.measured(name, events, spent) for name, spent in seconds.items()}
    report.bar("log_throughput_ratio", rates["durable sink"] / rates["in-memory sink"], 0.85)


# ---------------------------------------------------------------------------------------------------------- recovery


def measure_recovery(report: Report, rows: int, epochs: int, repeats: int) -> None:
    with tempfile.TemporaryDirectory(prefix="morphspark-bench-") as folder, ProgressBar(2) as bar:
        paths = {log: Path(folder) / log for log in ("delta", "command")}
        for log, path in paths.items():
            bar.step(f"{epochs} epochs, log={log}")
            _write_state(path, log, rows, epochs)
        seconds = {log: [] for log in paths}
        for _ in range(repeats):  # they take turns
            for log, path in paths.items():
                seconds[log].append(_open_elsewhere(path, epochs))
        for log, path in paths.items():
            logged = _bytes_per_event(path)
            report.measured(f"recovery, {log}", epochs * EPOCH_EVENTS, seconds[log], rows=rows, **logged)
    report.bar("recovery_seconds", statistics.median(seconds["delta"]), 3.0, at_most=True)
    report.bar("recovery_seconds_command", statistics.median(seconds["command"]), None)
    for log, row in zip(paths, report.rows[-2:], strict=True):
        report.bar(f"log_bytes_per_event_{log}", row["log_bytes_per_event"], None)


def _write_state(path: Path, log: str, rows: int, epochs: int) -> None:
    """As a crash leaves it: a snapshot of all rows, then epochs."""
    config = ms.Config(log=log, snapshot_every=NEVER)
    with streaming_ledger.build().open(path, config) as engine:
        _load(engine, rows)
        engine.snapshot()
        for epoch in range(epochs):
            engine.process(_events(rows, epoch))


def _load(engine: ms.Engine, rows: int) -> None:
    for name, table in streaming_ledger.initial_state(rows // 2).items():
        engine.load(name, table)


def _events(rows: int, epoch: int) -> pa.Table:
    return streaming_ledger.generate(EPOCH_EVENTS, accounts=rows // 2, seed=7, first=epoch * EPOCH_EVENTS)


def _open_elsewhere(path: Path, epochs: int) -> float:
    """Seconds of app.open in a new process."""
    _forget_files(path)
    command = [sys.executable, "-m", __name__, str(path), str(epochs)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _forget_files(path: Path) -> None:
    """Let the operating system drop what it holds in memory of these files."""
    for file in path.rglob("*"):
        if file.is_file() and hasattr(os, "posix_fadvise"):
            handle = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def _open_here(path: str, epochs: int) -> float:
    app = streaming_ledger.build()
    started = time.perf_counter()
    with app.open(path) as engine:
        seconds = time.perf_counter() - started
        assert engine.epoch == epochs
    return seconds


def _bytes_per_event(path: Path) -> dict[str, float]:
    """What the log takes of an epoch: its changed rows or commands, and its record; the output besides."""
    state = StateDirectory(path)
    records = state.history.epochs()
    log = sum(len(state.store.read(one.file)) + (one.body.log.length if one.body.log else 0) for one in records)
    output = sum(one.body.output.length for one in records)
    events = len(records) * EPOCH_EVENTS
    return {"log_bytes_per_event": round(log / events, 1), "output_bytes_per_event": round(output / events, 1)}


# --------------------------------------------------------------------------------------------------------- snapshots


def measure_snapshots(report: Report, rows: int, fewest: int, every: int = SNAPSHOT_EVERY) -> None:
    """At least `fewest` epochs with a snapshot under way, and as many without, in blocks that alternate."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="morphspark-bench-") as folder, ProgressBar(2 * fewest) as bar:
        config = ms.Config(log="delta", snapshot_every=every)
        with streaming_ledger.build().open(Path(folder) / "state", config) as engine:
            _load(engine, rows)
            while min(map(len, seconds.values())) < fewest:
                assert engine.epoch < 20 * (fewest + every), "snapshots are always, or never, under way"
                bar.step(f"epoch {engine.epoch + 1}")
                events = _events(rows, engine.epoch)
                started = time.perf_counter()
                engine.process(events)
                spent = time.perf_counter() - started
                if engine.epoch > every // 2:  # the first ones meet cold caches
                    seconds[engine.metrics[-1]["snapshot"]].append(spent)
    names = {True: "epochs during a snapshot", False: "epochs between snapshots"}
    for under_way, spent in seconds.items():
        report.measured(names[under_way], EPOCH_EVENTS, spent, p95_ms=round(percentile(spent, 0.95) * 1e3, 3))
    ratio = percentile(seconds[True], 0.95) / percentile(seconds[False], 0.95)
    report.bar("snapshot_p95_ratio", ratio, 1.5, at_most=True)


def _line(row: Mapping[str, object]) -> str:
    more = [f"p95 {row['p95_ms']:.1f} ms"] if "p95_ms" in row else []
    if "log_bytes_per_event" in row:
        more = [f"{row['log_bytes_per_event']} B logged, {row['output_bytes_per_event']} B of output per event"]
    times = f"{row['median_ms']:>10,.1f} ms  ±{100 * row['spread']:.0f} %  {row['repeats']:>4} times"
    return "  ".join([f"{row['name']:<28}{times}", *more])


if __name__ == "__main__":
    print(_open_here(sys.argv[1], int(sys.argv[2])))
