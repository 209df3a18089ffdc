"""The sink in classic Spark. Most tests call it as Spark would; those with a `feed` run a real query."""

import datetime
import os
import threading
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ledger_events import EVENTS
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, NullType, StringType, TimestampNTZType, TimestampType

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.durable import failpoints
from morphspark.durable.failpoints import FailpointError

pytest_plugins = ["spark_fixtures"]

BALANCES = {"a": 30, "b": 80}
STATUSES = ["committed", "committed", "committed", "aborted"]


class Outputs:
    """A writer that keeps what it is given."""

    def __init__(self):
        self.epochs = []
        self.rows = []

    def __call__(self, df, epoch):
        self.epochs.append(epoch)
        self.rows.append(df.collect())


@pytest.fixture
def outputs():
    return Outputs()


@pytest.fixture
def sink(ledger, tmp_path, outputs):
    with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
        yield sink


def balances(sink):
    rows = sink.engine.table("accounts").to_arrow()
    return dict(zip(rows["key"].to_pylist(), rows["balance"].to_pylist(), strict=True))


def deposit(ts, amount=1):
    return {**EVENTS[0], "ts": ts, "amount": amount}


def files(sink):
    return sorted(path.name for path in Path(sink.path).rglob("*.parquet"))


# ------------------------------------------------------------------------------------------------ an epoch


def test_one_row_per_event_in_transaction_order(sink, frame, outputs):
    sink(frame(EVENTS[::-1]), 0)
    (rows,) = outputs.rows
    assert [row["ts"] for row in rows] == [1, 2, 3, 4]
    assert [row["_status"] for row in rows] == STATUSES
    assert [row["_reason"] for row in rows] == [None, None, None, "require: insufficient funds"]
    assert [row["balance"] for row in rows] == [None, None, 30, None]
    assert [(row["_epoch"], row["_ts"]) for row in rows] == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert balances(sink) == BALANCES


def test_several_actions_run_the_epoch_once(ledger, tmp_path, frame):
    seen = []

    def output(df, epoch):
        df.write.parquet(str(tmp_path / "out"))
        seen.extend([df.count(), df.where("_status = 'committed'").count(), len(df.collect())])

    with ms.Sink(ledger, tmp_path / "state", output) as sink:
        sink(frame(), 0)
        assert seen == [4, 3, 4]
        assert len(sink.engine.metrics) == 1
        assert balances(sink) == BALANCES


def test_state_lives_over_epochs_and_old_outputs_go(sink, frame, outputs):
    for epoch in range(4):
        sink(frame([deposit(epoch)]), epoch)
    assert outputs.epochs == [0, 1, 2, 3]
    assert balances(sink) == {"a": 4}
    sink.close()  # which waits for deletions
    assert len(files(sink)) == 2  # retain_epochs=2


def test_an_empty_batch(sink, frame, outputs):
    sink(frame([]), 0)
    sink(frame(), 1)
    assert [len(rows) for rows in outputs.rows] == [0, 4]
    assert sink.last_progress["epoch"] == 1


def test_progress_says_what_happened_and_how_long_it_took(sink, frame):
    assert sink.last_progress is None
    sink(frame(), 0)
    progress = dict(sink.last_progress)
    assert progress["events_per_s"] > 0
    times = ["to_arrow_ms", "process_ms", "write_ms", "output_ms"]
    assert all(progress[name] > 0 for name in times)
    assert progress["total_ms"] >= sum(progress[name] for name in times)
    counts = {"epoch": 0, "events": 4, "committed": 3, "aborted": 1, "unmatched": 0, "late": 0, "diverted": 0}
    assert {name: progress[name] for name in counts} == counts
    assert progress["state_rows"] == 3 and progress["state_bytes"] > 0 and progress["replayed"] is False


def test_pre_and_post(ledger, tmp_path, frame, outputs):
    with ms.Sink(
        ledger,
        tmp_path / "state",
        outputs,
        pre=lambda df: df.where("amount < 100"),
        post=lambda df: df.select("ts", F.upper("_status").alias("status")),
    ) as sink:
        sink(frame(), 0)
    assert [tuple(row) for row in outputs.rows[0]] == [(2, "COMMITTED"), (3, "ABORTED"), (4, "ABORTED")]


@pytest.mark.parametrize("name", ["pre", "post"])
def test_pre_and_post_must_return_a_dataframe(ledger, tmp_path, frame, outputs, name):
    with (
        ms.Sink(ledger, tmp_path, outputs, **{name: lambda df: None}) as sink,
        pytest.raises(TypeError, match=rf"Sink\({name}=…\): the function returned a NoneType, not a DataFrame"),
    ):
        sink(frame(), 0)


def test_diverted_events_go_to_the_late_output(tmp_path, frame, outputs):
    app = ms.App("sums", order_by="ts", late="divert")
    sums = app.table("sums", key="string", columns={"total": "int64"}, default={"total": 0})

    @app.on()
    def add(e):
        sums[e.account].total += e.amount

    late = Outputs()
    with ms.Sink(app, tmp_path / "state", outputs, late_output=late) as sink:
        sink(frame([deposit(10)]), 0)
        sink(frame([deposit(20), deposit(5), deposit(3)]), 1)
        sink(frame([deposit(30)]), 2)
        assert sink.engine.table("sums").to_arrow()["total"].to_pylist() == [3]
        assert late.epochs == [1]
        assert sorted(row["ts"] for row in late.rows[0]) == [3, 5]
        assert "_status" not in late.rows[0][0]
        assert [len(rows) for rows in outputs.rows] == [1, 1, 1]


def test_initial_state(sink, frame, outputs):
    sink.engine.load("accounts", pa.table({"key": ["a"], "balance": [1000]}))
    sink(frame(), 0)
    assert balances(sink) == {"a": 960, "b": 150}


# ---------------------------------------------------------------------------------------- which epochs run


def test_the_last_epoch_again_is_handed_over_and_does_not_run(sink, frame, outputs):
    sink(frame(), 0)
    sink(frame([]), 0)  # Spark promises the same rows; what is handed over comes from the file all the same
    assert outputs.epochs == [0, 0]
    assert outputs.rows[0] == outputs.rows[1]
    assert balances(sink) == BALANCES
    assert sink.last_progress["replayed"] and sink.last_progress["events"] == 4


@pytest.mark.parametrize(
    "before, epoch, message",
    [
        (0, 7, "epoch 7 arrived first, but the state in .* is empty .* bring the state back, or .* fresh checkpoint"),
        (1, 2, "epoch 2 arrived, but epoch 1 is next: epochs 1 to 1 never came here"),
        (3, 0, "epoch 0 arrived, but epochs up to 2 are committed .* The state in .* was kept .* bring the checkpoint"),
    ],
)
def test_any_other_epoch_is_refused_with_the_remedy(sink, frame, outputs, before, epoch, message):
    for one in range(before):
        sink(frame([deposit(one)]), one)
    with pytest.raises(ms.EpochError, match=message):
        sink(frame(), epoch)
    assert outputs.epochs == list(range(before))
    sink(frame(), before)  # and nothing is broken


def test_a_second_query_is_refused(spark, sink, frame):
    try:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", "first")
        sink(frame(), 0)
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", "second")
        with pytest.raises(ms.EpochError, match="holds the state of query first, and query second called it"):
            sink(frame(), 1)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)


def test_an_epoch_that_could_not_be_stored_did_not_happen(sink, frame, outputs, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(pq.ParquetWriter, "write_table", full)
        sink(frame(), 0)
    assert outputs.epochs == [] and sink.engine.epoch == 0 and balances(sink) == {}
    sink(frame(), 0)
    assert [row["_status"] for row in outputs.rows[0]] == STATUSES
    assert len(sink.engine.metrics) == 1


def test_an_epoch_that_failed_changed_nothing(sink, frame, outputs):
    with pytest.raises(ms.SchemaError, match="amount"):
        sink(frame().drop("amount"), 0)
    sink(frame(), 0)
    assert balances(sink) == BALANCES


def test_calls_from_several_threads_come_one_by_one(sink, frame, outputs):
    threads = [threading.Thread(target=sink, args=(frame(), 0)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs.epochs == [0, 0, 0]
    assert balances(sink) == BALANCES


def test_another_sink_continues_what_is_there(ledger, tmp_path, frame, outputs):
    first = ms.Sink(ledger, tmp_path / "state", outputs)
    first(frame([deposit(1), deposit(2)]), 0)  # and is never closed
    with ms.Sink(ledger, tmp_path / "state", outputs) as second:
        second(frame([]), 0)  # again: its output is in the directory
        assert outputs.rows[0] == outputs.rows[1] and len(outputs.rows[0]) == 2
        assert second.last_progress["replayed"] and second.last_progress["events"] == 2
        second(frame([deposit(3)]), 1)
        assert balances(second) == {"a": 3}
    with pytest.raises(ms.FencedError, match="was taken over: .* end the other one, or leave the state to it"):
        first(frame([deposit(4)]), 1)
    first(frame([]), 1)  # it looks at the directory again, and finds the epoch committed
    assert balances(first) == {"a": 3} and outputs.epochs == [0, 0, 1, 1]
    first.close()


@pytest.mark.parametrize(
    ("failpoint", "error", "handed_over"),
    [
        ("data.written", FailpointError, [0]),  # before the commit: it runs again
        ("record.synced", FailpointError, [0]),
        ("record.linked", ms.StateError, [0]),  # committed, but nobody could know
        ("epoch.committed", FailpointError, [0]),
        ("handover.before", FailpointError, [0]),
        ("handover.after", FailpointError, [0, 0]),  # Spark was not told that all went well
    ],
)
@pytest.mark.parametrize("anew", [True, False])
def test_a_failure_at_any_point_and_the_same_epoch_again(ledger, tmp_path, frame, failpoint, error, handed_over, anew):
    outputs = Outputs()
    sink = ms.Sink(ledger, tmp_path / "state", outputs)
    assert sink.engine.epoch == 0  # the directory has its first record
    with failpoints.armed(f"{failpoint}:raise"), pytest.raises(error):
        sink(frame(), 0)
    if anew:  # a new process, more or less
        sink.close()
        sink = ms.Sink(ledger, tmp_path / "state", outputs)
    sink(frame(), 0)
    sink(frame([deposit(9)]), 1)
    assert outputs.epochs == [*handed_over, 1]
    assert [row["_status"] for row in outputs.rows[0]] == STATUSES
    assert outputs.rows[0] == outputs.rows[len(handed_over) - 1]
    assert balances(sink) == {**BALANCES, "a": BALANCES["a"] + 1}
    sink.close()


def test_late_events_are_handed_over_again_after_a_restart(tmp_path, frame):
    app = ms.App("sums", order_by="ts", late="divert")
    app.table("sums", key="string", columns={"total": "int64"}, default={"total": 0})
    late = Outputs()
    with ms.Sink(app, tmp_path / "state", Outputs(), late_output=late) as sink:
        sink(frame([deposit(10)]), 0)
        with failpoints.armed("handover.before:raise"), pytest.raises(FailpointError):
            sink(frame([deposit(20), deposit(5)]), 1)
    assert late.epochs == []
    with ms.Sink(app, tmp_path / "state", Outputs(), late_output=late) as sink:
        sink(frame([]), 1)
        assert (late.epochs, [row["ts"] for row in late.rows[0]]) == ([1], [5])
        progress = sink.last_progress
        assert (progress["events"], progress["diverted"], progress["late"]) == (2, 1, 1)


def test_an_app_that_has_changed(ledger, tmp_path, frame, outputs):
    with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
        sink(frame(), 0)
    ledger.table("fees", key="string", columns={"paid": "int64"}, default={"paid": 0})
    with (
        ms.Sink(ledger, tmp_path / "state", outputs) as sink,
        pytest.raises(ms.StateError, match="table 'fees' is new.*evolve='tables'"),
    ):
        sink(frame([deposit(9)]), 1)
    with ms.Sink(ledger, tmp_path / "state", outputs, evolve="tables") as sink:
        sink(frame([deposit(9)]), 1)
        assert len(sink.engine.table("fees")) == 0
        assert balances(sink) == {**BALANCES, "a": BALANCES["a"] + 1}


def test_in_memory_nothing_is_continued(ledger, tmp_path, frame, outputs):
    config = ms.Config(log="none")
    first = ms.Sink(ledger, tmp_path / "state", outputs, config=config)
    first(frame([deposit(1), deposit(2)]), 0)  # and is never closed
    with ms.Sink(ledger, tmp_path / "state", outputs, config=config) as second:
        second(frame(), 0)
        assert [len(rows) for rows in outputs.rows] == [2, 4]
        assert len(files(second)) == 2
        second(frame([]), 0)
        assert outputs.rows[1] == outputs.rows[2]
    assert len(files(first)) == 1  # closing takes its own files along


# --------------------------------------------------------------------------------------------------- types

TYPES = {
    "bool": "true",
    "byte": "1Y",
    "short": "2S",
    "int": "3",
    "long": "4L",
    "float": "cast(1.5 as float)",
    "double": "2.5D",
    "small_decimal": "cast(1.25 as decimal(9, 2))",
    "large_decimal": "cast(1.25 as decimal(38, 10))",
    "text": "'ä'",
    "bytes": "X'00FF'",
    "day": "date'2024-02-29'",
    "ancient_day": "date'0001-01-01'",
    "time": "timestamp'2024-02-29 01:02:03.456789'",
    "ancient_time": "timestamp'1600-01-01 01:02:03.456789'",
    "local_time": "timestamp_ntz'2024-02-29 01:02:03.456789'",
    "span": "interval '1 02:03:04.5' day to second",
    "numbers": "array(1, null, 3)",
    "times": "array(timestamp'2024-02-29 01:02:03')",
    "mapped": "map('a', 1S, 'b', null)",
    "deep": "named_struct('x', 1, 'y', array(named_struct('z', map(1, array('q')))))",
    "empty_list": "array()",
    "case_blind": "'a' collate UTF8_LCASE",
}


def test_event_columns_come_back_with_the_types_they_had(spark, tmp_path, outputs):
    app = ms.App("nothing")
    schemas = []

    def output(df, epoch):
        schemas.append(df.schema)
        outputs(df, epoch)

    # Each value is there in row 0 and null in row 1, which pyspark's toArrow alone does not take for `deep`.
    columns = [f"if(id = 0, {sql}, null) as `{name}`" for name, sql in TYPES.items()]
    names = ["id as `with space`", "id as `with.dot`", "id as `with``tick`", "null as nothing"]
    df = spark.range(2, numPartitions=1).selectExpr("id", *columns, *names)
    with ms.Sink(app, tmp_path / "state", output) as sink:
        sink(df, 0)
    given = df.schema.toNullable()
    assert schemas[0].fields[: len(given)] == given.fields
    assert schemas[0]["nothing"].dataType == NullType()
    assert [tuple(row)[: len(given)] for row in outputs.rows[0]] == [tuple(row) for row in df.collect()]


LEGACY = [
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.int96RebaseModeInRead",
]


def test_old_dates_in_a_session_that_reads_files_of_old_spark(spark, ledger, tmp_path, frame, outputs):
    """The results' file is in the calendar of today, whatever the session says about its other files."""
    dates = {"day": "date'1500-03-01'", "time": "timestamp'1500-03-01 01:02:03'"}
    df = frame(EVENTS[:1]).selectExpr("*", *(f"{sql} {name}" for name, sql in dates.items()))
    expected = df.collect()[0]
    for name in LEGACY:
        spark.conf.set(name, "LEGACY")
    try:
        with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
            sink(df, 0)
    finally:
        for name in LEGACY:
            spark.conf.unset(name)
    assert [outputs.rows[0][0][name] for name in dates] == [expected[name] for name in dates]


@pytest.mark.parametrize(
    "sql, kind, value",
    [
        ("timestamp'2024-02-29 01:02:03'", TimestampType(), datetime.datetime(2024, 2, 28, 16, 2, 3)),
        ("timestamp_ntz'2024-02-29 01:02:03'", TimestampNTZType(), datetime.datetime(2024, 2, 29, 1, 2, 3)),
        ("7", LongType(), 7),
        ("'seven'", StringType(), "seven"),
        ("cast(7 as decimal(5, 1))", None, Decimal("7.0")),
    ],
)
def test_the_timestamp_column_has_the_type_of_the_order_column(spark, tmp_path, sql, kind, value):
    app = ms.App("order", order_by="at")
    seen = []
    with ms.Sink(app, tmp_path / "state", lambda df, epoch: seen.append(df)) as sink:
        sink(spark.range(1).selectExpr(f"{sql} as at"), 0)
        df = seen[0]
        assert df.schema["_ts"].dataType == (kind or df.schema["at"].dataType)
        found = df.toArrow()["_ts"][0].as_py()
    assert (found.replace(tzinfo=None) if isinstance(found, datetime.datetime) else found) == value


def test_returned_columns_of_every_type(spark, tmp_path):
    app = ms.App("returns")

    @app.on()
    def give(e):
        when, price = ms.where(e.x > 0, e.t, e.t), ms.where(e.x > 0, e.d, e.d)
        return {
            "b": e.x > 1,
            "i": e.x + 1,
            "f": e.x / 2,
            "s": e.w + "!",
            "when": when,
            "price": price,
            "none": None,
        }

    seen = []
    df = spark.range(1).selectExpr("3 x", "'s' w", "timestamp'2024-02-29 01:02:03' t", "cast(1.5 as decimal(5, 2)) d")
    with ms.Sink(app, tmp_path / "state", lambda df, epoch: seen.append((dict(df.dtypes), df.collect()))) as sink:
        sink(df, 0)
    kinds, (row,) = seen[0]
    assert [kinds[name] for name in ("b", "i", "f", "s", "when", "price", "none")] == [
        "boolean", "bigint", "double", "string", "timestamp", "decimal(5,2)", "void",
    ]  # fmt: skip
    assert (row["b"], row["i"], row["f"], row["s"]) == (True, 4, 1.5, "s!")
    assert (row["when"], row["price"], row["none"]) == (row["t"], Decimal("1.50"), None)


# --------------------------------------------------------------------------------------------- bad input


def test_a_type_that_parquet_can_not_give_back_is_refused_before_the_epoch_runs(sink, frame, outputs):
    with pytest.raises(ms.SchemaError, match="column 'at' is time.*cast it or drop it in pre="):
        sink(frame().selectExpr("*", "time'12:00:00' as at"), 0)
    assert sink.engine.epoch == 0


def test_no_columns(spark, sink):
    with pytest.raises(ms.SchemaError, match="the DataFrame has no columns"):
        sink(spark.range(3).select(), 0)


def test_names_that_differ_in_case_only_are_refused_before_the_epoch_runs(sink, frame, outputs):
    with pytest.raises(ms.SchemaError, match="columns BALANCE and balance have one name to Spark"):
        sink(frame().withColumn("BALANCE", F.lit(1)), 0)
    assert sink.engine.epoch == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"app": "ledger"}, "expected an ms.App, got a str"),
        ({"output": None}, r"Sink\(output=…\): expected a function, got a NoneType"),
        ({"pre": 3}, r"Sink\(pre=…\): expected a function, got a int"),
        ({"path": "s3://bucket/state"}, "expected a local or mounted folder"),
        ({"path": None}, r"Sink\(path=None\): expected a folder .* such as 'state/ledger'"),
        ({"path": ""}, r"Sink\(path=''\): expected a folder"),
        ({"path": b"state"}, r"Sink\(path=b'state'\): expected a folder .* as a string or a pathlib.Path"),
        ({"config": {}}, r"Sink\(config=…\): expected an ms.Config\(…\), got a dict"),
    ],
)
def test_bad_arguments(ledger, tmp_path, arguments, message):
    with pytest.raises(ms.ConfigError, match=message):
        ms.Sink(**{"app": ledger, "path": tmp_path, "output": print, **arguments})


def test_a_folder_that_cannot_be_made_is_known_before_anything_runs(ledger, tmp_path, frame):
    (tmp_path / "file").write_text("")
    with ms.Sink(ledger, tmp_path / "file" / "state", print) as sink:
        with pytest.raises(NotADirectoryError):
            sink(frame(), 0)
        (tmp_path / "file").unlink()
        sink(frame(), 0)
        assert balances(sink) == BALANCES


def test_any_folder_name_will_do(ledger, tmp_path, frame, outputs):
    folder = tmp_path / "a b[c]{d}*?%20\\ü"
    with ms.Sink(ledger, f"file://{folder}", outputs) as sink:
        sink(frame(), 0)
        assert sink.path == str(folder)
    assert len(outputs.rows[0]) == 4


# ---------------------------------------------------------------------------------------- settings and life


def test_settings_come_from_the_spark_conf(spark, ledger, tmp_path, frame):
    spark.conf.set("spark.morphspark.retain_epochs", "5")
    spark.conf.set("spark.morphspark.strategy", "serial")
    try:
        with ms.Sink(ledger, tmp_path, print) as sink:
            sink(frame(), 0)
            assert (sink.engine.config.retain_epochs, sink.engine.config.strategy) == (5, "serial")
        with ms.Sink(ledger, tmp_path, print, config=ms.Config(retain_epochs=3)) as sink:
            sink(frame(), 0)
            assert sink.engine.config.retain_epochs == 3
        spark.conf.set("spark.morphspark.colour", "blue")
        with (
            ms.Sink(ledger, tmp_path, print) as sink,
            pytest.raises(ms.ConfigError, match=r"spark\.morphspark\.\*: unknown setting 'colour'"),
        ):
            sink(frame(), 0)
    finally:
        for name in ("retain_epochs", "strategy", "colour"):
            spark.conf.unset(f"spark.morphspark.{name}")


def test_close(sink, frame):
    sink(frame(), 0)
    engine = sink.engine
    sink.close()
    sink.close()
    assert len(files(sink)) == 1  # the output, should Spark repeat the epoch
    with pytest.raises(ms.ClosedError, match="the sink is closed"):
        sink(frame(), 1)
    with pytest.raises(ms.ClosedError):
        engine.table("accounts").to_arrow()


def test_what_travels_to_a_spark_connect_server(ledger, tmp_path, frame):
    with pytest.raises(ms.ConfigError, match="query_id='ledger'"):
        cloudpickle.dumps(ms.Sink(ledger, tmp_path, print))
    opened = ms.Sink(ledger, tmp_path, print, query_id="ledger")
    assert opened.engine.epoch == 0
    with pytest.raises(ms.ConfigError, match="engine is open"):
        cloudpickle.dumps(opened)
    opened.close()
    seen = []
    sink = ms.Sink(ledger, tmp_path, seen.append, query_id="ledger", config=ms.Config(retain_epochs=7))
    copy = cloudpickle.loads(cloudpickle.dumps(sink))
    with pytest.raises(ms.ClosedError, match="went to the Spark Connect server"):
        _ = sink.engine
    with copy:
        assert copy.engine.config.retain_epochs == 7
        assert copy.app.program == ledger.program


# -------------------------------------------------------------------------------------------------- queries


def test_the_streaming_program_of_the_api_document(ledger, spark, feed, tmp_path, monkeypatch):
    app, events = ledger, feed.stream
    feed.add(EVENTS[:2])
    feed.add(EVENTS[2:])
    monkeypatch.chdir(tmp_path)
    out, chk = str(tmp_path / "out"), str(tmp_path / "chk")  # the JVM does not change its folder with us
    # fmt: off
    query = (events.writeStream
        .foreachBatch(ms.Sink(app, path="state/ledger",
                              output=lambda df, epoch: df.write.mode("append").parquet(out)))
        .option("checkpointLocation", chk)
        .start())
    # fmt: on
    query.processAllAvailable()
    query.stop()
    rows = spark.read.parquet(out).orderBy("ts").collect()
    assert [(row["_epoch"], row["_status"]) for row in rows] == list(zip([0, 0, 1, 1], STATUSES, strict=True))
    assert os.path.isdir("state/ledger")


def test_a_writer_that_failed_gets_the_stored_output_when_the_query_is_started_again(ledger, feed, tmp_path, run_query):
    calls = {"pre": 0, "output": []}

    def pre(df):
        calls["pre"] += 1
        return df

    def output(df, epoch):
        calls["output"].append((epoch, df.count()))
        if calls["output"] == [(0, 2)]:
            raise RuntimeError("the warehouse is closed")

    feed.add(EVENTS[:2])
    with ms.Sink(ledger, tmp_path / "state", output, pre=pre) as sink:
        with pytest.raises(StreamingQueryException, match="the warehouse is closed"):
            run_query(feed.stream, sink)
        feed.add(EVENTS[2:])
        run_query(feed.stream, sink)
        assert calls == {"pre": 2, "output": [(0, 2), (0, 2), (1, 2)]}
        assert balances(sink) == BALANCES


def test_a_query_is_continued_by_another_sink(ledger, feed, tmp_path, run_query, outputs):
    feed.add(EVENTS[:2])
    with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
        run_query(feed.stream, sink)
    feed.add(EVENTS[2:])
    with ms.Sink(ledger, tmp_path / "state", outputs) as another:
        run_query(feed.stream, another)
        assert outputs.epochs == [0, 1] and balances(another) == BALANCES
        with ledger.open(tmp_path / "state", read_only=True) as engine:
            before = engine.table("accounts").at(epoch=0).to_arrow()["balance"].to_pylist()
            assert sorted(before) == sorted(event["amount"] for event in EVENTS[:2])


def test_a_checkpoint_without_its_state_is_refused(ledger, feed, tmp_path, run_query, outputs):
    feed.add(EVENTS[:2])
    with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
        run_query(feed.stream, sink)
    feed.add(EVENTS[2:])
    with (
        ms.Sink(ledger, tmp_path / "another", outputs) as another,
        pytest.raises(StreamingQueryException, match="epoch 1 arrived first, but the state in .* is empty"),
    ):
        run_query(feed.stream, another)
    assert outputs.epochs == [0]


def test_state_without_its_checkpoint_is_refused(ledger, feed, tmp_path, run_query, outputs):
    feed.add(EVENTS)
    with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
        run_query(feed.stream, sink)
    with (
        ms.Sink(ledger, tmp_path / "state", outputs) as another,
        pytest.raises(StreamingQueryException, match="holds the state of query .* bring the old checkpoint back"),
    ):
        run_query(feed.stream, another, "fresh checkpoint")
    assert outputs.epochs == [0]


def test_epochs_from_elsewhere_are_refused_but_calls_are_not(ledger, feed, tmp_path, run_query, outputs):
    feed.add(EVENTS[:2])
    with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
        query = run_query(feed.stream, sink)
    with ledger.open(tmp_path / "state") as engine:
        with pytest.raises(ms.EpochError, match="which counts its epochs: one from elsewhere would make it lose"):
            engine.process(pa.table({"ts": [9]}))
        assert engine.call("transfer", account="a", to_account="c", amount=7).status == "committed"
    feed.add(EVENTS[2:])
    with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
        run_query(feed.stream, sink)
        assert balances(sink)["c"] == 7
    with ledger.open(tmp_path / "state", query_id=str(query.id)) as engine:
        assert engine.epoch == 2


def test_one_sink_in_two_queries_is_refused(ledger, feed, tmp_path, run_query, outputs):
    feed.add(EVENTS)
    with ms.Sink(ledger, tmp_path / "state", outputs) as sink:
        run_query(feed.stream, sink, "one")
        with pytest.raises(StreamingQueryException, match="holds the state of query .* make a Sink for each query"):
            run_query(feed.stream, sink, "two")


def test_a_wrong_schema_stops_the_query_with_a_message(spark, tmp_path, run_query, outputs, feed):
    feed.add(EVENTS)
    wrong = feed.stream.selectExpr("timestamp_micros(ts) ts", "* except (ts)").withColumn("to_asset", F.lit("x"))
    with (
        ms.Sink(streaming_ledger.build(), tmp_path / "state", outputs) as sink,
        pytest.raises(StreamingQueryException, match="SchemaError: column 'quantity': expected int64, got double"),
    ):
        run_query(wrong.withColumn("quantity", F.lit(1.5)), sink)


class SlowToStop:
    """A query that Spark stops a little later than asked to: the next micro-batch starts in between."""

    def __init__(self, query):
        self.query = query

    @property
    def isActive(self):
        return self.query.isActive

    def stop(self):
        time.sleep(0.5)
        self.query.stop()


@pytest.mark.parametrize("asked", [lambda query: query, SlowToStop])
def test_stop_ends_a_query_between_two_epochs(spark, tmp_path, asked):
    started, written = threading.Event(), []

    def output(df, epoch):
        started.set()
        written.append((epoch, df.count()))

    with ms.Sink(streaming_ledger.build(), tmp_path / "state", output) as sink:
        stream = streaming_ledger.stream(spark, rows_per_batch=50, accounts=20)
        query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "chk")).start()
        assert started.wait(60)
        sink.stop(asked(query))
        assert not query.isActive and query.exception() is None
        assert written == [(epoch, 50) for epoch in range(sink.engine.epoch)]
