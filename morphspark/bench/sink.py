"""`morphspark bench sink`: what a streaming query pays for transactions.

Streaming Ledger through Spark, three queries that take turns in one session:

    morphspark   ms.Sink, durable as it is by default; its output is read in full by a writer to nowhere (`noop`)
    dict loop    foreachBatch: toArrow(), a Python dict loop, statuses back to Arrow; keeps and writes nothing
    toArrow      foreachBatch: toArrow() and nothing else: what reaching Python costs at all

Events come from Parquet files, one per micro-batch, so that no generator is measured: a file is moved into the
folder of one query, and the next into another's when that micro-batch is done. A micro-batch's time is the trigger's,
as Spark's progress reports it, with Spark's own logs in it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.bench.ledger_peers import DictLoop
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.02

Body = Callable[["DataFrame", int], Any]


def run(scale: Scale) -> Report:
    quick = scale.quick
    spark = local_session("morphspark bench sink", {"spark.sql.streaming.pollingDelay": f"{POLL_S * 1e3:.0f}ms"})
    report = Report("sink")
    try:
        # The first micro-batches of a query meet new keys and code that Java has not compiled: they are not measured.
        _measure(spark, report, events=100_000, warm_up=5 if quick else 16, batches=5 if quick else 48)
        _measure(spark, report, events=1_000_000, warm_up=1 if quick else 2, batches=1 if quick else 9)
    finally:
        spark.stop()
    return report


def _measure(spark: SparkSession, report: Report, events: int, warm_up: int, batches: int) -> None:
    bodies = {"morphspark": _morphspark, "dict loop": _dict_loop, "toArrow": _to_arrow}
    seconds: dict[str, list[float]] = {name: [] for name in bodies}
    with tempfile.TemporaryDirectory(prefix="morphspark-bench-") as folder, contextlib.ExitStack() as stack:
        files = _write_events(Path(folder) / "events", events, warm_up + batches)
        contestants = {
            name: stack.enter_context(_Contestant(spark, Path(folder) / name.replace(" ", "-"), make, files[0]))
            for name, make in bodies.items()
        }
        bar = stack.enter_context(ProgressBar(warm_up + batches))
        for turn in range(warm_up + batches):
            bar.step(f"micro-batch {turn + 1} of {events // 1000:,} k events each")
            for name, contestant in contestants.items():
                spent = contestant.process(files[turn])
                if turn >= warm_up:
                    seconds[name].append(spent)
    size = f"{events // 1000:,} k"
    rates = {name: report.measured(f"{name}, {size} events", events, spent) for name, spent in seconds.items()}
    bar = 0.9 if events == 100_000 else None  # the dict loop keeps nothing
    suffix = "" if events == 100_000 else "_1m"
    report.bar(f"vs_dict_sink{suffix}", rates["morphspark"] / rates["dict loop"], bar)
    report.bar(f"vs_toarrow{suffix}", rates["morphspark"] / rates["toArrow"], None)


def _write_events(folder: Path, events: int, count: int) -> list[Path]:
    folder.mkdir()
    files = [folder / f"{number:04}.parquet" for number in range(count)]
    for number, file in enumerate(files):
        table = streaming_ledger.generate(events, seed=7, first=number * events)
        pq.write_table(table, file, compression="lz4", row_group_size=events // 2)  # a group for each of two cores
    return files


class _Contestant:
    """A query that gets one file at a time."""

    def __init__(self, spark: SparkSession, folder: Path, make: Callable[[Path], Body], example: Path):
        self._inbox = folder / "inbox"
        self._inbox.mkdir(parents=True)
        schema = spark.read.parquet(str(example)).schema
        stream = spark.readStream.schema(schema).parquet(str(self._inbox))
        writer = stream.writeStream.foreachBatch(make(folder))
        self._query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        self._files = 0

    def process(self, file: Path) -> float:
        """Run a micro-batch with the events of a file; the seconds it took."""
        unseen = self._inbox / f".{self._files:06}.parquet"
        os.link(file, unseen)  # Spark must not see half a file, so it comes in one step under a new name
        unseen.rename(self._inbox / unseen.name[1:])
        batch = self._files
        self._files += 1
        while True:
            if self._query.exception() is not None:
                raise RuntimeError(f"the query failed: {self._query.exception()}")
            report = self._query.lastProgress
            if report is not None and report["batchId"] >= batch and report["numInputRows"]:
                return float(report["durationMs"]["triggerExecution"]) / 1e3
            time.sleep(POLL_S)

    def __enter__(self) -> _Contestant:
        return self

    def __exit__(self, *error: object) -> None:
        self._query.stop()


def _morphspark(folder: Path) -> Body:
    def write(df: DataFrame, epoch: int) -> None:
        df.write.format("noop").mode("append").save()

    return ms.Sink(streaming_ledger.build(), path=folder / "state", output=write)


def _dict_loop(folder: Path) -> Body:
    loop = DictLoop(initial=0)
    return lambda df, epoch: loop.process(df.toArrow())


def _to_arrow(folder: Path) -> Body:
    return lambda df, epoch: df.toArrow()
