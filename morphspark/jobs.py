"""The streaming-ledger job: what `morphspark run conf/ledger.toml` and `make run` do.

A run leaves behind:

    runs/ledger-<time>/output/epoch=N/     what the query wrote, one folder per epoch
    runs/ledger-<time>/state/              the state directory: any morphspark can go on from there
    runs/ledger-<time>/tables/*.parquet    the tables as the last epoch left them
    runs/ledger-<time>/checkpoint/         Spark's
    runs/ledger-<time>/spark.log           Spark's
    runs/ledger-<time>/.morphspark-run     says that the folder is ours to delete; locked while the run goes on
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .apps import streaming_ledger
from .config import Config, read_toml
from .errors import ConfigError
from .progress import LiveLine, Tally, bytes_text, percentile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from .engine import Engine
    from .sink import Sink

STAGES = {
    "to_arrow": "reading events",
    "process": "transactions",
    "write": "logging and storing results",
    "output": "output",
}
SECTIONS = ("job", "engine", "spark")
POLL_S = 0.25
EPOCHS_MIN = 2  # one to warm up, one to measure
# The summary's figures come from Spark's reports, of which it keeps 100.
JOB_CONF = {"spark.sql.streaming.numRecentProgressUpdates": 10_000}
RUN_NAME = re.compile(r"ledger-\d{8}-\d{6}")
RUN_MARKER = ".morphspark-run"


@dataclass(frozen=True)
class LedgerJob:
    """The [job] section; conf/ledger.toml says what each means."""

    name: str = "streaming-ledger"
    seconds: float = 30
    rows_per_batch: int = 100_000
    accounts: int = 100_000
    theta: float = 0.6
    transfer_ratio: float = 0.5
    abort_ratio: float = 0.01
    seed: int = 0
    runs: str = "runs"
    keep_runs: int = 3

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_type(field.name, getattr(self, field.name), field.type)
        if self.name != "streaming-ledger":
            raise ConfigError(f"job.name = {self.name!r}: there is one job, 'streaming-ledger'")
        for name in ("seconds", "rows_per_batch", "accounts", "keep_runs"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"job.{name} = {getattr(self, name)}: expected more than 0")
        if self.theta < 0:
            raise ConfigError(f"job.theta = {self.theta}: expected 0 or more")
        for name in ("transfer_ratio", "abort_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"job.{name} = {getattr(self, name)}: expected a share from 0 to 1")

    def knobs(self) -> dict[str, Any]:
        """What the generator takes."""
        names = ("rows_per_batch", "accounts", "theta", "transfer_ratio", "abort_ratio", "seed")
        return {name: getattr(self, name) for name in names}


def run(path: str, overrides: Mapping[str, Any], verbose: bool = False) -> int:
    """Run the job that a TOML file describes; the exit code."""
    job, config, spark_conf = read_job(path, overrides)
    with run_folder(job) as folder:
        print(f"starting Spark (its log: {'here' if verbose else folder / 'spark.log'})", flush=True)

        from .session import local_session

        log = "-" if verbose else str(folder / "spark.log")
        spark = local_session(f"morphspark {job.name}", {**JOB_CONF, **spark_conf}, log)
        try:
            return stream_ledger(spark, job, config, folder)
        finally:
            spark.stop()


def read_job(path: str, overrides: Mapping[str, Any]) -> tuple[LedgerJob, Config, dict[str, Any]]:
    settings = read_toml(path)
    for section, content in settings.items():
        if section not in SECTIONS:
            raise ConfigError(f"{path}: unknown section [{section}]; expected {', '.join(SECTIONS)}")
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: {section} must be a section: [{section}]")
    names = [field.name for field in dataclasses.fields(LedgerJob)]
    given = {**settings.get("job", {}), **overrides}
    for name in given:
        if name not in names:
            raise ConfigError(f"{path}: unknown setting {name!r} in [job]; expected one of {', '.join(names)}")
    return LedgerJob(**given), Config.from_file(path), settings.get("spark", {})


@contextlib.contextmanager
def run_folder(job: LedgerJob) -> Iterator[Path]:
    """A folder for this run, in place of the oldest ones."""
    runs = Path(job.runs)
    with contextlib.ExitStack() as open_files:
        try:
            older = sorted(one for one in runs.glob("ledger-*") if is_old_run(one))
            for one in older[: max(0, len(older) - job.keep_runs + 1)]:
                shutil.rmtree(one, ignore_errors=True)
            folder = runs / f"ledger-{time.strftime('%Y%m%d-%H%M%S')}"
            folder.mkdir(parents=True)
            marker = open_files.enter_context(open(folder / RUN_MARKER, "w", encoding="utf-8"))
            marker.write("A run of `morphspark run`; a later run deletes this folder (keep_runs).\n")
            marker.flush()
            with contextlib.suppress(OSError):  # some file systems have no locks: then no run is deleted there
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"job.runs = {job.runs!r}: {error}") from None
        yield folder


def is_old_run(folder: Path) -> bool:
    """Whether this is a folder that a run made, and that run is over."""
    if folder.is_symlink() or not RUN_NAME.fullmatch(folder.name):
        return False
    try:
        with open(folder / RUN_MARKER, "r+", encoding="utf-8") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while the run holds it
    except OSError:
        return False
    return True


# ----------------------------------------------------------------------------------------------- the stream


def stream_ledger(spark: SparkSession, job: LedgerJob, config: Config, folder: Path) -> int:
    from .sink import Sink

    events = streaming_ledger.stream(spark, **job.knobs())
    output = str((folder / "output").absolute())
    tally = Tally()

    def write(df: DataFrame, epoch: int) -> None:
        # A folder per epoch, overwritten: an epoch that is handed over twice is there once.
        df.write.mode("overwrite").parquet(f"{output}/epoch={epoch}")

    def process(df: DataFrame, epoch: int) -> None:
        sink(df, epoch)
        assert sink.last_progress is not None
        tally.add(sink.last_progress)

    with Sink(streaming_ledger.build(), folder / "state", write, config=config) as sink:
        started = time.monotonic()
        query = (
            events.writeStream.foreachBatch(process)
            .option("checkpointLocation", str((folder / "checkpoint").absolute()))
            .start()
        )
        watch(query, sink, tally, started + job.seconds)
        sink.stop(query)
        if query.exception() is not None:
            reason = str(query.exception()).split("\n=== Streaming Query ===")[0]  # then comes the whole plan
            print(f"the query failed; more in {folder / 'spark.log'}\n{reason}")
            return 1
        if not tally.epochs:
            print("stopped before the first epoch was through")
            return 0
        print_summary(job, tally, query, time.monotonic() - started)
        conserved = check_conservation(spark, sink.engine, output, tally)
        save_tables(sink.engine, folder / "tables")
    print_next_steps(folder)
    return 0 if conserved else 1


def watch(query: StreamingQuery, sink: Sink, tally: Tally, until: float) -> None:
    """Show progress until the time is over, the query fails, or the user presses Ctrl-C."""
    asked_to_stop = threading.Event()
    line = LiveLine()
    with signals_to(asked_to_stop):
        while query.isActive and (time.monotonic() < until or len(tally.epochs) < EPOCHS_MIN):
            if asked_to_stop.wait(POLL_S):
                break
            last = sink.last_progress
            line.show(progress_text(last, tally) if last is not None else "waiting for the first epoch")
    line.end()
    if asked_to_stop.is_set():
        print("stopping after this epoch", flush=True)


@contextlib.contextmanager
def signals_to(event: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and a polite kill set an event; pyspark's own handler would cancel the running batch."""
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(name, lambda *_: event.set()) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def progress_text(last: dict[str, Any], tally: Tally) -> str:
    return (
        f"epoch {last['epoch']:>4}  {last['events_per_s']:>9,.0f} events/s"
        f"  {tally.committed:>11,} committed  {tally.aborted:>9,} aborted"
        f"  state {last['state_rows']:,} rows, {bytes_text(last['state_bytes'])}"
    )


# ---------------------------------------------------------------------------------------------- the summary


def print_summary(job: LedgerJob, tally: Tally, query: StreamingQuery, seconds: float) -> None:
    last = tally.epochs[-1]
    print(f"\nstreaming ledger: {tally.events:,} events in {len(tally.epochs)} epochs, {seconds:.1f} s")
    aborted = f"{tally.aborted:,} aborted ({tally.aborted / tally.events:.1%} of all)"
    print(f"  transactions  {tally.committed:,} committed, {aborted}")
    print(f"  state         {last['state_rows']:,} rows, {bytes_text(last['state_bytes'])}")
    print_speed(job, tally, {one.batchId: one.durationMs["triggerExecution"] for one in query.recentProgress})


def print_speed(job: LedgerJob, tally: Tally, batch_ms: Mapping[int, float]) -> None:
    """Throughput and latency as Spark measured them: with its own steps, from trigger to commit."""
    # The last epoch has no measurement if the query was stopped before Spark reported it.
    first = tally.epochs[0]["epoch"]
    if first in batch_ms:
        print(f"  first epoch   {batch_ms[first] / 1e3:.1f} s, in which Spark warms up; not counted below")
    warm = [epoch for epoch in tally.epochs[1:] if epoch["epoch"] in batch_ms]
    if not warm:
        return
    if len(warm) < len(tally.epochs) - 2:
        print(f"  measured      the last {len(warm):,} epochs; Spark has forgotten those before")
    times = [batch_ms[epoch["epoch"]] for epoch in warm]
    print(f"  throughput    {sum(epoch['events'] for epoch in warm) / sum(times) * 1e3:,.0f} events/s")
    shares = "  ".join(f"p{int(at * 100)} {percentile(times, at):,.0f} ms" for at in (0.5, 0.95, 0.99))
    print(f"  latency       {shares}  per micro-batch of {job.rows_per_batch:,} events")
    spent = {text: sum(epoch[f"{stage}_ms"] for epoch in warm) for stage, text in STAGES.items()}
    spent["Spark's own steps"] = max(0.0, sum(times) - sum(spent.values()))
    print("  spent on      " + ", ".join(f"{text} {ms / sum(times):.0%}" for text, ms in spent.items()))


def check_conservation(spark: SparkSession, engine: Engine, output: str, tally: Tally) -> bool:
    """All there is was deposited, and all that was deposited is there: state against what the query wrote."""
    import pyarrow.compute as pc
    from pyspark.sql import functions as F

    written = spark.read.parquet(output)
    deposited = F.when((F.col("kind") == "deposit") & (F.col("_status") == "committed"), F.lit(1))
    sums = F.sum(deposited * F.col("amount")), F.sum(deposited * F.col("quantity"))
    events, money, goods = written.agg(F.count("*"), *sums).collect()[0]
    held = pc.sum(engine.table("accounts").to_arrow()["balance"]).as_py()
    stored = pc.sum(engine.table("assets").to_arrow()["amount"]).as_py()
    print(f"  money         {money:,} deposited, {held:,} in the accounts")
    print(f"  goods         {goods:,} deposited, {stored:,} in the assets")
    print(f"  output        {events:,} rows for {tally.events:,} events")
    conserved = (money, goods, events) == (held, stored, tally.events)
    print("money conserved" if conserved else "MONEY NOT CONSERVED: a bug of morphspark, please report it")
    return conserved


def save_tables(engine: Engine, folder: Path) -> None:
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for table in engine.program.tables:
        pq.write_table(engine.table(table.name).to_arrow(), folder / f"{table.name}.parquet")


def print_next_steps(folder: Path) -> None:
    print(f"""
output    {folder}/output         Parquet, one folder per epoch; one row per event, with _status and _reason
tables    {folder}/tables         the accounts and assets at the end, as Parquet
try next
  {command("morphspark")} run conf/ledger.toml --rows-per-batch 1000000
      larger micro-batches: more events/s, more latency
  notebooks/01_ledger.ipynb
      the same application, step by step
  {command("spark-submit")} conf/ledger_submit.py
      a job to copy for an application of your own""")


def command(name: str) -> str:
    """How to call a program that was installed beside this Python: by its path, unless the shell finds the same one."""
    here = Path(sys.executable).parent / name  # not resolved: in .venv/bin
    found = shutil.which(name)
    if not here.exists() or (found and Path(found).absolute() == here.absolute()):
        return name
    inside = here.absolute().is_relative_to(Path.cwd())
    return str(here.absolute().relative_to(Path.cwd()) if inside else here)


def _check_type(name: str, value: Any, wanted: Any) -> None:
    kinds = {"str": (str,), "int": (int,), "float": (int, float)}[wanted]
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise ConfigError(f"job.{name} = {value!r}: expected a value of type {wanted}")
