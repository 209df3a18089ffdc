"""The sink: how a Structured Streaming query reaches the engine, and its output the user's writer.

This is the only module of the core path that knows pyspark. Per micro-batch:

    pre(df) → toArrow → pipeline (runs and commits it, or has its output) → post(df) → output(df, epoch)

The DataFrame given to `output` reads a file of the epoch's commit. So however many actions the writer starts on it,
nothing runs again; and it is many times faster than handing Arrow back through `createDataFrame`.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    FractionalType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)
from pyspark.sql.utils import is_remote

from .app import App
from .config import Config
from .durable.binding import check_evolve
from .durable.failpoints import reach
from .engine import Engine
from .errors import ClosedError, ConfigError, EpochError, SchemaError
from .metrics import ms_since
from .pipeline import DurablePipeline, MemoryPipeline, Output, Pipeline, Stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

CONF_PREFIX = "spark.morphspark."
QUERY_ID_NEEDED = "on Spark Connect a sink can't ask Spark for its query: name it, Sink(…, query_id='ledger')"
TRAVELS = ("app", "path", "query_id", "config", "evolve", "last_progress", "_output", "_late_output", "_pre", "_post")
# Types that survive the way through Arrow and Parquet; numbers, strings and what is nested in them besides.
READABLE = (
    BinaryType, BooleanType, DateType, DayTimeIntervalType, DecimalType, FractionalType, IntegralType, NullType,
    StringType, TimestampNTZType, TimestampType, VariantType,
)  # fmt: skip
STOP_POLL_S = 0.005
# Spark searches the message of an exception for these words, to tell a stop from a failure (StreamExecution).
SEEN_AS_STOP = "py4j.protocol.Py4JJavaError: An error occurred while calling stop: java.lang.InterruptedException"


class Sink:
    """What `writeStream.foreachBatch` calls: runs every micro-batch as one epoch of `app`.

    path         the state directory; local, or mounted at the same place on all executors. What an earlier run of
                 the query left there is continued
    output       called as output(df, epoch) with one row per event, in transaction order. After a failure it
                 may be called again for the same epoch with the same rows: write so that twice is once
    pre, post    DataFrame → DataFrame, before and after the transactions
    late_output  called like `output` with the events that `App(late="divert")` set aside, if there are any
    query_id     a name for the query; needed on Spark Connect, where a sink can't ask Spark
    config       an ms.Config; otherwise the settings `spark.morphspark.*` of the session, read once
    evolve       go on although the app has changed: "tables" or "program" (see App.open)

    One sink serves one query, and a state directory belongs to one query. An epoch's state changes and its output
    are durable in one step, before the output is handed over; whatever dies in between, the next start hands it
    over again. `close()` frees the memory and leaves the directory; a sink is a context manager, too. With
    `Config(log="none")` nothing is durable, and state lives as long as the sink.
    """

    def __init__(
        self,
        app: App,
        path: str | os.PathLike[str],
        output: Callable[[DataFrame, int], Any],
        pre: Callable[[DataFrame], DataFrame] | None = None,
        post: Callable[[DataFrame], DataFrame] | None = None,
        late_output: Callable[[DataFrame, int], Any] | None = None,
        query_id: str | None = None,
        config: Config | None = None,
        evolve: str | None = None,
    ):
        if not isinstance(app, App):
            raise ConfigError(f"Sink(app=…): expected an ms.App, got a {type(app).__name__}")
        _check_callable("output", output)
        for name, function in {"pre": pre, "post": post, "late_output": late_output}.items():
            if function is not None:
                _check_callable(name, function)
        if config is not None and not isinstance(config, Config):
            raise ConfigError(f"Sink(config=…): expected an ms.Config(…), got a {type(config).__name__}")
        if query_id is None and is_remote():
            raise ConfigError(QUERY_ID_NEEDED)
        self.app = app
        self.path = _local_path(path)
        self.query_id = query_id
        self.config = config
        check_evolve(evolve)
        self.evolve = evolve
        self.last_progress: dict[str, Any] | None = None
        self._output, self._late_output, self._pre, self._post = output, late_output, pre, post
        self._start()

    def _start(self) -> None:
        self._lock = threading.RLock()
        self._pipeline: Pipeline | None = None
        self._query: str | None = None  # the query that uses this sink
        self._checked: StructType | None = None  # the schema whose names were found to be in order
        self._stopping: StreamingQuery | None = None
        self._closed = False
        self._sent = False  # to a Spark Connect server

    # -- a micro-batch

    def __call__(self, df: DataFrame, epoch_id: int) -> None:
        with self._lock:
            self._refuse_while_stopping(epoch_id)
            started = time.perf_counter()
            spark = df.sparkSession
            query = self._query_of(spark)
            pipeline = self._open(spark)
            self._belong_to(query, pipeline.engine)
            runs = pipeline.is_next(epoch_id)
            to_arrow_ms = 0.0
            if runs:
                events, schema = self._events(df)
                to_arrow_ms = ms_since(started)
                output = pipeline.run(epoch_id, events, schema.jsonValue(), self._order_type(schema))
            else:
                output = pipeline.last()
                self._check_same(df, output)
            handing = time.perf_counter()
            self._hand_over(spark, output)
            self._report(output, runs, to_arrow_ms, ms_since(handing), ms_since(started))

    def _events(self, df: DataFrame) -> tuple[pa.Table, StructType]:
        """The events, and the schema that they shall have again when they come back."""
        if self._pre is not None:
            df = _frame(self._pre(df), "pre")
        schema = df.schema.toNullable()  # what is read from a file may always be null
        if schema != self._checked:
            self._check_names(df.sparkSession, schema.names)
            for one in schema:
                _check_type(one.name, one.dataType)
            self._checked = schema
        return _loose(df, schema).toArrow(), schema

    def _hand_over(self, spark: SparkSession, output: Output) -> None:
        events = StructType.fromJson(output.event_schema)
        rows = _read(spark, output.rows, events)
        if self._post is not None:
            rows = _frame(self._post(rows), "post")
        reach("handover.before")
        self._output(rows, output.epoch)
        if self._late_output is not None and output.late is not None:
            self._late_output(_read(spark, output.late, events), output.epoch)
        reach("handover.after")

    def _check_same(self, df: DataFrame, output: Output) -> None:
        """On Spark Connect a checkpoint that was deleted shows by nothing but other events in its first epoch."""
        if getattr(df.sparkSession, "sparkContext", None) is not None:
            return  # there the query has another id
        found = (df if self._pre is None else _frame(self._pre(df), "pre")).count()
        if found != output.progress["events"]:
            raise EpochError(
                f"epoch {output.epoch} arrived again with {found} events, but it was committed with "
                f"{output.progress['events']}: these are other events. The state in {self.path} was kept and the "
                f"query's checkpoint was not: bring the checkpoint back, or start over with both new"
            )

    def _order_type(self, schema: StructType) -> pa.DataType | None:
        """The type that `_ts` shall have, where the engine would give it another."""
        without_zone = [one.name for one in schema if isinstance(one.dataType, TimestampNTZType)]
        return pa.timestamp("us") if self.app.order_by[:1] and self.app.order_by[0] in without_zone else None

    def _check_names(self, spark: SparkSession, columns: list[str]) -> None:
        """What Spark could not read back must not run. (Two equal names are left to the engine.)"""
        if not columns:
            raise SchemaError("the DataFrame has no columns, so Spark does not say how many rows it has; keep one")
        returned = [name for one in self.app.program.transactions for name, _ in one.returns]
        spellings: dict[str, set[str]] = {}
        for name in [*columns, *returned]:
            spellings.setdefault(name.lower(), set()).add(name)
        same = next((sorted(names) for names in spellings.values() if len(names) > 1), None)
        if same is not None and spark.conf.get("spark.sql.caseSensitive") != "true":
            raise SchemaError(
                f"columns {' and '.join(same)} have one name to Spark (spark.sql.caseSensitive); rename one"
            )

    def _report(self, output: Output, ran: bool, to_arrow_ms: float, output_ms: float, total_ms: float) -> None:
        self.last_progress = {
            **output.progress,
            "replayed": not ran,
            "to_arrow_ms": to_arrow_ms,
            "output_ms": output_ms,
            "total_ms": total_ms,
            "events_per_s": output.progress["events"] / total_ms * 1e3 if ran else 0.0,
        }

    # -- life

    @property
    def engine(self) -> Engine:
        """The live engine (classic Spark). Before the query starts, `engine.load(…)` gives it initial state."""
        pipeline = self._pipeline
        if pipeline is None:
            from pyspark.sql import SparkSession

            with self._lock:
                pipeline = self._open(None if self.config else SparkSession.getActiveSession())
        return pipeline.engine

    def stop(self, query: StreamingQuery) -> None:
        """Stop the query between two micro-batches (classic Spark).

        `query.stop()` alone interrupts the micro-batch under way: its transactions may be committed, and its
        output not be written until the query is started again.
        """
        with self._lock:
            self._stopping = query
        try:
            query.stop()
        finally:
            self._stopping = None

    def _refuse_while_stopping(self, epoch: int) -> None:
        """Keep a micro-batch from starting that comes while the query is being stopped."""
        while (query := self._stopping) is not None:
            # Before Spark knows that it shall stop, an exception would count as a failure of the query.
            if not query.isActive:
                raise EpochError(f"epoch {epoch} did not run, as the query is being stopped. {SEEN_AS_STOP}")
            time.sleep(STOP_POLL_S)

    def close(self) -> None:
        """Free the memory. Stop the query first; a batch that is under way is waited for."""
        with self._lock:
            self._closed = True
            if self._pipeline is not None:
                self._pipeline.close()

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<morphspark sink of {self.app.name!r} in {self.path!r}>"

    def _open(self, spark: SparkSession | None) -> Pipeline:
        if self._closed:
            raise ClosedError("the sink is closed; make a new one")
        if self._sent:
            raise ClosedError("this sink went to the Spark Connect server as a copy: its engine and state are there")
        if self._pipeline is not None and self._pipeline.engine.stopped is not None:
            self._pipeline.close()  # the query failed; what is on the disk is what holds
            self._pipeline = None
        if self._pipeline is None:
            config = self.config or _session_config(spark)
            if config.log == "none":
                self._pipeline = MemoryPipeline(self.app.open(config=config), self.path)
            else:
                self._pipeline = DurablePipeline(self.app.open(self.path, config, evolve=self.evolve))
            self._query = None
        return self._pipeline

    def _query_of(self, spark: SparkSession) -> str | None:
        context = getattr(spark, "sparkContext", None)  # Spark Connect has none
        if context is None and self.query_id is None:
            raise ConfigError(QUERY_ID_NEEDED)
        return self.query_id if context is None else context.getLocalProperty("sql.streaming.queryId")

    def _belong_to(self, query: str | None, engine: Engine) -> None:
        """A sink has the state of one query; another one would see epochs that it never sent."""
        if query is None or query == self._query:
            return
        if self._query is not None:
            raise EpochError(
                f"this sink holds the state of query {self._query}, and query {query} called it; make a Sink for "
                f"each query, with a path of its own (a query started with a fresh checkpointLocation is a new one)"
            )
        if engine.location is not None:
            engine.bind_query(query)
        self._query = query

    # On Spark Connect a sink travels to a Python process beside the server, once per query, and opens its
    # engine there. What stays with the client has no state.
    def __getstate__(self) -> dict[str, Any]:
        if self.query_id is None:
            raise ConfigError(QUERY_ID_NEEDED)
        if self._pipeline is not None:
            raise ConfigError("a sink whose engine is open can't be sent to a Spark Connect server; make a new one")
        self._sent = True
        return {name: self.__dict__[name] for name in TRAVELS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()


def _session_config(spark: SparkSession | None) -> Config:
    settings = spark.conf.getAll if spark is not None else {}
    own = {name[len(CONF_PREFIX) :]: value for name, value in settings.items() if name.startswith(CONF_PREFIX)}
    return Config.from_mapping(own, f"Spark conf {CONF_PREFIX}*")


def _local_path(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise ConfigError(
            f"Sink(path={path!r}): expected a folder for what the sink keeps, as a string or a pathlib.Path, "
            f"such as 'state/ledger'"
        )
    text = re.sub(r"^file:(//)?(?=/)", "", text)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text):
        raise ConfigError(f"Sink(path={path!r}): expected a local or mounted folder, not an object store or HDFS")
    return os.path.abspath(text)


def _check_type(column: str, kind: DataType) -> None:
    """What a file can't give back to Spark as it came must not run either."""
    if isinstance(kind, ArrayType):
        _check_type(column, kind.elementType)
    elif isinstance(kind, MapType):
        _check_type(column, kind.keyType)
        _check_type(column, kind.valueType)
    elif isinstance(kind, StructType):
        for one in kind:
            _check_type(f"{column}.{one.name}", one.dataType)
    elif not isinstance(kind, READABLE):
        raise SchemaError(
            f"column {column!r} is {kind.simpleString()}, which Parquet can't give back to Spark; "
            f"cast it or drop it in pre="
        )


def _read(spark: SparkSession, stored: Stored, events: StructType) -> DataFrame:
    # With the schema given Spark need not open the file, and every event column has the type it came with.
    added = [field for field in stored.schema if field.name not in events.names]
    own = [StructField(field.name, from_arrow_type(field.type)) for field in added]
    # Arrow knows one calendar; a session may say that files are of old Spark, with dates before 1582 in another.
    calendar = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
    return spark.read.schema(StructType([*events.fields, *own])).options(**calendar).parquet(_uri(stored.file))


def _uri(file: os.PathLike[str]) -> str:
    """For Spark, whose default file system may be another, and who takes `[a]*` for a pattern."""
    return "file://" + re.sub(r"([\\{}\[\]*?])", r"\\\1", os.fspath(file))


def _loose(df: DataFrame, schema: StructType) -> DataFrame:
    """The same rows, but nothing inside a column is declared as never null.

    toArrow fails on a null struct whose fields are declared so (pyspark 4.3).
    """
    if all(one.dataType == loose.dataType for one, loose in zip(df.schema, schema, strict=True)):
        return df
    return df.select(*[F.col(_quoted(one.name)).cast(one.dataType).alias(one.name) for one in schema])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check_callable(name: str, function: Any) -> None:
    if not callable(function):
        raise ConfigError(f"Sink({name}=…): expected a function, got a {type(function).__name__}")


def _frame(df: Any, name: str) -> DataFrame:
    if not hasattr(df, "toArrow"):
        raise TypeError(f"Sink({name}=…): the function returned a {type(df).__name__}, not a DataFrame")
    return df
