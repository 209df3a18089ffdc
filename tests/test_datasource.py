"""spark.read.format("morphspark"): tables of a state directory as DataFrames."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import morphspark as ms
from morphspark.durable import shares
from morphspark.durable.directory import StateDirectory
from morphspark.testing import assert_same

pytest_plugins = ["spark_fixtures"]


@pytest.fixture
def trades():
    """An app with a composite key and a column of every type; a volume of 0 deletes the row."""
    app = ms.App("trades", order_by="ts")
    columns = {"volume": "int64", "price": "decimal(10, 2)", "rate": "float64", "open": "bool", "at": "timestamp"}
    books = app.table("books", key={"venue": "string", "symbol": "int64"}, columns=columns)
    count = app.table("count", key="int64", columns={"n": "int64"}, default={"n": 0})

    @app.on(kind="put")
    def put(e):
        books.delete((e.venue, e.symbol))
        with ms.when(e.volume > 0):
            books.insert((e.venue, e.symbol), volume=e.volume, price=e.price, rate=e.rate, open=e.open, at=e.at)
        count[0].n += 1

    return app


def puts(ts, rows):
    """Events from (venue, symbol, volume)."""
    n = len(rows)
    return pa.table(
        {
            "ts": pa.array(range(ts, ts + n), pa.int64()),
            "kind": pa.array(["put"] * n),
            "venue": pa.array([row[0] for row in rows]),
            "symbol": pa.array([row[1] for row in rows], pa.int64()),
            "volume": pa.array([row[2] for row in rows], pa.int64()),
            "price": pa.array([decimal.Decimal(row[2]) / 4 for row in rows], pa.decimal128(10, 2)),
            "rate": pa.array([row[2] / 3 for row in rows], pa.float64()),
            "open": pa.array([row[2] % 2 == 0 for row in rows]),
            "at": pa.array([datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)] * n, pa.timestamp("us", "UTC")),
        }
    )


def read(spark, path, table, epoch=None):
    reader = spark.read.format("morphspark").option("path", str(path)).option("table", table)
    return (reader if epoch is None else reader.option("epoch", epoch)).load()


def volumes(df):
    return {(row.venue, row.symbol): row.volume for row in df.collect()}


def sorted_rows(table):
    keys = [(name, "ascending") for name in table.column_names]
    return table.sort_by(keys).combine_chunks()


@pytest.mark.parametrize("log", ["delta", "command"])
def test_a_table_is_read_as_it_is_now_and_as_it_was(spark, trades, tmp_path, log):
    config = ms.Config(log=log, retain_epochs=3)
    with trades.open(tmp_path / "s", config) as engine:
        engine.process(puts(0, [("x", 1, 10), ("x", 2, 20), ("y", 1, 30)]))
        engine.process(puts(10, [("x", 1, 0), ("y", 1, 31)]))
        engine.process(puts(20, [("z", 9, 40)]))
    now = read(spark, tmp_path / "s", "books")
    assert now.schema.simpleString() == (
        "struct<venue:string,symbol:bigint,volume:bigint,price:decimal(10,2),rate:double,open:boolean,at:timestamp>"
    )
    assert volumes(now) == {("x", 2): 20, ("y", 1): 31, ("z", 9): 40}
    assert volumes(read(spark, tmp_path / "s", "books", 0)) == {("x", 1): 10, ("x", 2): 20, ("y", 1): 30}
    assert volumes(read(spark, tmp_path / "s", "books", 1)) == {("x", 2): 20, ("y", 1): 31}
    row = now.where("venue = 'z'").selectExpr("price", "rate", "open", "unix_micros(at) us").collect()[0]
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert (row.price, row.rate, row.open) == (decimal.Decimal("10.00"), 40 / 3, True)
    assert row.us == int(at.timestamp()) * 1_000_000
    assert [tuple(row) for row in read(spark, tmp_path / "s", "count").collect()] == [(0, 6)]


def test_a_dataframe_keeps_the_state_that_load_found(spark, trades, tmp_path):
    with trades.open(tmp_path / "s", ms.Config(retain_epochs=1)) as engine:
        engine.process(puts(0, [("x", 1, 10)]))
        df, unused = (read(spark, tmp_path / "s", "books") for _ in range(2))
        engine.process(puts(10, [("x", 1, 11)]))
        assert volumes(df.where("volume > 0")) == {("x", 1): 10}
        assert volumes(read(spark, tmp_path / "s", "books")) == {("x", 1): 11}
        engine.snapshot()
        engine.process(puts(20, [("x", 1, 12)]))
        engine.process(puts(30, [("x", 1, 13)]))
    with pytest.raises(PySparkException, match="its retention may have deleted the file since"):
        df.where("volume > 1").collect()
    with pytest.raises(PySparkException, match="the state that load\\(\\) found is no longer kept"):
        unused.collect()


def test_shares_of_a_large_table_are_read_in_parallel(spark, counter, tmp_path, monkeypatch):
    rows = 600_000
    with counter.open(tmp_path / "s", ms.Config(log="delta", retain_epochs=9)) as engine:
        engine.load("sums", pa.table({"key": np.arange(rows), "total": np.zeros(rows, np.int64)}))
        engine.snapshot()
        keys = np.arange(0, 2 * rows, 3)
        engine.process(pa.table({"ts": np.arange(len(keys)), "key": keys, "amount": keys * 2}))
        wanted = engine.table("sums").to_arrow()
    df = read(spark, tmp_path / "s", "sums")
    assert df.rdd.getNumPartitions() > 1
    assert_same(sorted_rows(df.toArrow().cast(wanted.schema)), sorted_rows(wanted))
    assert read(spark, tmp_path / "s", "sums").where("key >= 600000").count() == len(keys[keys >= rows])


@pytest.mark.parametrize("share_rows", [1, 3, 1000])
def test_shares_make_up_the_table(trades, tmp_path, monkeypatch, share_rows):
    """Loads, calls in front of loads, snapshots, deletions, new rows: however many shares there are."""
    monkeypatch.setattr(shares, "SHARE_ROWS", share_rows)
    config = ms.Config(log="delta", retain_epochs=99)
    with trades.open(tmp_path / "s", config) as engine:
        event = {name: column[0] for name, column in puts(0, [("c", 1, 5)]).drop(["ts", "kind"]).to_pydict().items()}
        engine.call("put", **event)
        engine.call("put", **{**event, "volume": 0})
        initial = [("c", 1, 7), *(("l", n, n + 1) for n in range(10))]
        engine.load("books", puts(0, initial).drop(["ts", "kind"]))
        for epoch in range(6):
            engine.process(puts(epoch * 10, [("l", epoch, epoch % 2 * 50), ("n", epoch // 2, epoch + 1)]))
            if epoch == 3:
                engine.snapshot()
    state = StateDirectory(tmp_path / "s")
    counts = []
    for epoch in state.epochs:
        number = state.history.of_epoch(epoch).number
        planned = shares.plan_shares(state.history, number, "books")
        counts.append(len(planned))
        found = [batch for one in planned for batch in shares.read_share(state.store, one)]
        wanted = state.table("books", epoch)
        assert_same(sorted_rows(pa.Table.from_batches(found, wanted.schema)), sorted_rows(wanted))
    assert (max(counts) > 2) == (share_rows < 1000)


@pytest.mark.parametrize("share_rows", [1, 1000])
def test_rows_that_keep_versions_come_once(tmp_path, monkeypatch, share_rows):
    """A snapshot of such a table has every version."""
    monkeypatch.setattr(shares, "SHARE_ROWS", share_rows)
    app = ms.App("speeds", order_by="ts")
    speeds = app.table("speeds", key="int64", columns={"speed": "int64"}, default={"speed": 0})

    @app.on()
    def see(e):
        speeds[e.key].speed = e.ts
        return {"sum": speeds[e.key].over(100).speed.sum()}

    with app.open(tmp_path, ms.Config(log="delta")) as engine:
        for epoch in range(4):
            engine.process(pa.table({"ts": range(epoch * 10, epoch * 10 + 6), "key": [0, 1, 2, 0, 1, 0]}))
            if epoch == 1:
                engine.snapshot()
    state = StateDirectory(tmp_path)
    for epoch in state.epochs:
        planned = shares.plan_shares(state.history, state.history.of_epoch(epoch).number, "speeds")
        found = [batch for one in planned for batch in shares.read_share(state.store, one)]
        wanted = state.table("speeds", epoch)
        assert_same(sorted_rows(pa.Table.from_batches(found, wanted.schema)), sorted_rows(wanted))


def test_a_table_that_got_a_column_is_recovered_whole(spark, tmp_path):
    def build(columns):
        app = ms.App("grows")
        table = app.table("t", key="int64", columns=columns, default=dict.fromkeys(columns, 7))

        @app.on()
        def put(e):
            table[e.key].a = e.key * 2

        return app

    with build({"a": "int64"}).open(tmp_path / "s") as engine:
        engine.process(pa.table({"key": [1, 2]}))
    with build({"a": "int64", "b": "int64"}).open(tmp_path / "s", evolve="tables") as engine:
        engine.process(pa.table({"key": [2, 3]}))
    assert sorted(map(tuple, read(spark, tmp_path / "s", "t").collect())) == [(1, 2, 7), (2, 4, 7), (3, 6, 7)]
    assert read(spark, tmp_path / "s", "t", 0).columns == ["key", "a"]


def test_an_empty_table(spark, trades, tmp_path):
    trades.open(tmp_path / "s").close()
    df = read(spark, tmp_path / "s", "books")
    assert df.count() == 0 and "venue" in df.columns


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "option 'path' is missing"),
        ({"path": "s"}, "option 'table' is missing"),
        ({"path": "nowhere", "table": "books"}, "nowhere holds no state of morphspark"),
        ({"path": "s", "table": "bokks"}, "has no table 'bokks' then (tables: books, count)"),
        ({"path": "s", "table": "books", "epoch": "9"}, "the state after epoch 9 is not there: epochs 0 to 0 are kept"),
        ({"path": "s", "table": "books", "epoch": "last"}, "option 'epoch' is 'last'; expected a whole number"),
        ({"path": "s", "table": "books", "version": "1"}, "unknown option 'version'; expected path, table, epoch"),
    ],
)
def test_a_mistake_says_what_was_expected(spark, trades, tmp_path, options, message):
    with trades.open(tmp_path / "s") as engine:
        engine.process(puts(0, [("x", 1, 10)]))
    if "path" in options:
        options = {**options, "path": str(tmp_path / options["path"])}
    with pytest.raises(PySparkException) as error:
        spark.read.format("morphspark").options(**options).load().collect()
    assert message in str(error.value)


def test_a_file_that_is_gone_is_named(spark, trades, tmp_path):
    with trades.open(tmp_path / "s", ms.Config(log="delta")) as engine:
        engine.process(puts(0, [("x", 1, 10)]))
    state = StateDirectory(tmp_path / "s")
    (tmp_path / "s" / state.history.last_epoch().body.log.name).unlink()
    with pytest.raises(PySparkException) as error:
        read(spark, tmp_path / "s", "books").collect()
    assert state.history.last_epoch().body.log.name in str(error.value)
    assert "its retention may have deleted the file" in str(error.value)
