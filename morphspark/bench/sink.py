"""`morphspark bench sink`: what a streaming query pays for transactions.

Streaming Ledger through Spark, three queries that take turns in one session:

    morphspark   ms.Sink; its output DataFrame is read in full by a writer to nowhere (`noop`)
    dict loop    foreachBatch: toArrow(), a Python dict loop, statuses back to Arrow; keeps and writes nothing
    toArrow      foreachBatch: toArrow() and nothing else: what reaching Python costs at all

Events come from Parquet files, one per micro-batch, so that no generator is measured. A micro-batch's time is the
trigger's, as Spark's progress reports it, with Spark's own logs in it.
"""

from __future__ import annotations

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
from morphspark.bench.report import Report, progress
from morphspark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.01

Body = Callable[["DataFrame", int], Any]


def run(quick: bool) -> Report:
    spark = local_session("morphspark bench sink")
    report = Report("sink")
    try:
        # The first micro-batches of a query meet new keys and cold code: they are not measured.
        _measure(spark, report, events=100_000, turns=2 if quick else 8, warm_up=3, batches=5 if quick else 9)
        _measure(
            spark,
            report,
            events=1_000_000,
            turns=1 if quick else 4,
            warm_up=1 if quick else 2,
            batches=1 if quick else 4,
        )
    finally:
        spark.stop()
    return report


def _measure(spark: SparkSession, report: Report, events: int, turns: int, warm_up: int, batches: int) -> None:
    contestants = {"morphspark": _morphspark, "dict loop": _dict_loop, "toArrow": _to_arrow}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    with tempfile.TemporaryDirectory(prefix="morphspark-bench-") as folder:
        _write_events(Path(folder), events, warm_up + batches)
        for turn in range(turns):
            progress(turn, turns)
            for name, make in contestants.items():
                seconds[name] += _query(spark, make, Path(folder))[warm_up:]
    progress(turns, turns)
    size = f"{events // 1000:,} k"
    rates = {name: report.measured(f"{name}, {size} events", events, spent) for name, spent in seconds.items()}
    bar = 1.0 if events == 100_000 else None
    suffix = "" if events == 100_000 else "_1m"
    report.bar(f"vs_dict_sink{suffix}", rates["morphspark"] / rates["dict loop"], bar)
    report.bar(f"vs_toarrow{suffix}", rates["morphspark"] / rates["toArrow"], None)


def _write_events(folder: Path, events: int, batches: int) -> None:
    for number in range(batches):
        file = folder / f"{number:04}.parquet"
        table = streaming_ledger.generate(events, seed=7, first=number * events)
        pq.write_table(table, file, compression="lz4", row_group_size=events // 2)  # a group for each of two cores
        os.utime(file, (number, number))  # Spark takes the oldest file first


def _query(spark: SparkSession, make: Callable[[Path], Body], events: Path) -> list[float]:
    """Run a query over all files, one per micro-batch; the seconds of each."""
    schema = spark.read.parquet(str(events)).schema
    files = len(list(events.glob("*.parquet")))
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(events))
    with tempfile.TemporaryDirectory(prefix="morphspark-bench-") as folder:
        writer = stream.writeStream.foreachBatch(make(Path(folder)))
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
        spent: dict[int, float] = {}
        while len(spent) < files:
            if query.exception() is not None:
                raise RuntimeError(f"the query failed: {query.exception()}")
            reports = [one for one in query.recentProgress if one["numInputRows"]]
            spent.update({one["batchId"]: one["durationMs"]["triggerExecution"] / 1e3 for one in reports})
            time.sleep(POLL_S)
        query.stop()
        return [spent[batch] for batch in sorted(spent)]


def _morphspark(folder: Path) -> Body:
    def write(df: DataFrame, epoch: int) -> None:
        df.write.format("noop").mode("append").save()

    return ms.Sink(streaming_ledger.build(), path=folder / "state", output=write)


def _dict_loop(folder: Path) -> Body:
    loop = DictLoop(initial=0)
    return lambda df, epoch: loop.process(df.toArrow())


def _to_arrow(folder: Path) -> Body:
    return lambda df, epoch: df.toArrow()
