"""Bad input: the epoch dies before any change, with an error that names the column; or only the transaction aborts."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import morphspark as ms

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


def events(**columns):
    """A good batch for the counter app, with some columns replaced or (None) left out."""
    good = {"ts": pa.array([1, 2]), "key": pa.array([1, 2]), "amount": pa.array([10, 20])}
    return pa.table({name: column for name, column in {**good, **columns}.items() if column is not None})


def refused(engines, batch, *words, error=ms.SchemaError):
    """The batch is refused with all these words; the engines are as before and go on."""
    epoch = engines.epoch
    with pytest.raises(error) as caught:
        engines.process(batch)
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {str(caught.value)!r}"
    assert engines.epoch == epoch
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------ schema


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (events(amount=None), ["the batch has no column 'amount'", "(columns: ts, key)", "app 'counter' uses it"]),
        (events(ts=None), ["no column 'ts'"]),
        (pa.table({"ts": [1], "key": [1], "amuont": [1]}), ["no column 'amount'; did you mean 'amuont'?"]),
        (pa.table({}), ["no column 'ts'", "(columns: none)"]),
        (events(amount=pa.array(["1", "2"])), ["int64 + string is not defined; column 'amount' is string"]),
        (events(amount=pa.array([1.5, 2.5])), ["sums.total is int64 and can't store float64"]),
        (events(key=pa.array(["a", "b"])), ["the key of 'sums'", "takes int64, not string"]),
        (events(ts=pa.array([1.0, 2.0])), ["order_by='ts'", "float64", "expected int64, timestamp, string, decimal"]),
        (events(ts=pa.array([True, False])), ["order_by='ts'", "bool"]),
        (events(amount=pa.array([1, 2], pa.uint64())), ["column 'amount' is uint64, which transactions can't use"]),
        (events(amount=pa.array([b"a", b"b"])), ["column 'amount' is binary"]),
        (events(amount=pa.array([{"x": 1}, {"x": 2}])), ["column 'amount' is struct<x: int64>"]),
        (events(amount=pa.array([[1], [2]])), ["list<int64>"]),
        (events(amount=pa.array([datetime.date(2020, 1, 1)] * 2)), ["column 'amount' is date32"]),
        (events(amount=pa.array([Decimal(1)] * 2, pa.decimal128(19, 0))), ["column 'amount' is decimal128(19, 0)"]),
        (events(_status=pa.array(["a", "b"])), ["a column '_status', which morphspark adds itself"]),
        (events(_ts=pa.array([1, 2])), ["a column '_ts'"]),
        (events(_kind=pa.array([1, 2])), ["a column '_kind'"]),
        (events(total=pa.array([1, 2])), ["returned column 'total' has the name of an event column"]),
        (pa.table([[1], [1], [1], [1]], ["ts", "key", "amount", "ts"]), ["two columns called ts"]),
    ],
)
def test_wrong_schema(counter, opened, batch, words):
    engines = opened(counter)
    refused(engines, batch, *words)
    assert engines.process(events())["total"].to_pylist() == [10, 20]


@pytest.mark.parametrize("data", [None, 5, "events", [{"ts": 1}], {"ts": [1]}, np.arange(3)])
def test_not_a_table(counter, opened, data):
    refused(opened(counter), data, "pyarrow.Table", "pandas.DataFrame", f"not a {type(data).__name__}")


def test_wrong_type_in_a_later_batch(counter, opened):
    engines = opened(counter)
    engines.process(events())
    wrong = events(amount=pa.array(["1", "2"]))
    refused(engines, wrong, "column 'amount': expected int64, got string", "types stay as first seen")
    refused(engines, events(amount=pa.array([1.0, 2.0])), "expected int64, got double")
    refused(engines, events(ts=pa.array([1, 2], pa.timestamp("us"))), "column 'ts': expected int64, got timestamp[us]")
    assert engines.process(events())["total"].to_pylist() == [20, 40]


def test_decimals_of_a_later_batch(opened):
    app = ms.App("d", events={"d": "decimal(9, 2)"})

    @app.on()
    def run(e):
        return {"x": e.d + e.d}

    engines = opened(app)
    fits = pa.table({"d": pa.array([Decimal("1.05")], pa.decimal128(5, 2))})
    assert engines.process(fits)["x"].to_pylist() == [Decimal("2.10")]
    for wrong in (pa.decimal128(12, 2), pa.decimal128(9, 3), pa.decimal128(9, 1)):
        refused(engines, pa.table({"d": pa.array([Decimal(1)], wrong)}), "column 'd': expected decimal(9, 2)")


def test_declared_types_hold_from_the_start(opened):
    app = ms.App("declared", events={"x": "int64", "unused": "string"})

    @app.on()
    def run(e):
        return {"y": e.x + 1}

    engines = opened(app)
    refused(engines, pa.table({"x": [1.5]}), "column 'x': expected int64, got double")
    assert engines.process(pa.table({"x": pa.array([1], pa.int8())}))["y"].to_pylist() == [2]


def test_on_with_a_value_of_another_type(opened):
    app = ms.App("on")

    @app.on(kind=5)
    def run(e):
        pass

    refused(opened(app), pa.table({"kind": ["a"]}), "on(kind=5): the column is string, the value int64")


def test_a_returned_list(opened):
    app = ms.App("list")

    @app.on()
    def run(e):
        return {"y": e.xs}

    refused(opened(app), pa.table({"xs": [[1]]}), "returned column 'y' can't be list<int64>")


def test_returned_columns_of_two_types(opened):
    app = ms.App("two")

    @app.on(k=1)
    def one(e):
        return {"y": 1}

    @app.on(k=2)
    def two(e):
        return {"y": "a"}

    refused(opened(app), pa.table({"k": [1]}), "two: returned column 'y'", "int64 and string")


# -------------------------------------------------------------------------------------------------- timestamps


@pytest.fixture
def clock():
    app = ms.App("clock", order_by="at")

    @app.on()
    def run(e):
        return {"when": e.at}

    return app


def test_nanoseconds_that_are_not_whole_microseconds(clock, opened):
    engines = opened(clock)
    exact = pa.table({"at": pa.array([1_000, 5_000], pa.timestamp("ns"))})
    assert engines.process(exact)["when"].cast(pa.int64()).to_pylist() == [1, 5]
    inexact = pa.table({"at": pa.array([1_001], pa.timestamp("ns"))})
    refused(engines, inexact, "column 'at': timestamp[ns] does not fit timestamp exactly")


def test_seconds_beyond_microseconds(clock, opened):
    far = pa.table({"at": pa.array([2**62], pa.timestamp("s"))})
    refused(opened(clock), far, "column 'at'", "does not fit timestamp exactly")


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_zones_are_labels(clock, opened, unit, zone):
    """A zone says how to show an instant; without one the value is UTC."""
    moment = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] * 1_700_000_000
    result = opened(clock).process(pa.table({"at": pa.array([moment], pa.timestamp(unit, zone))}))
    assert result["when"].type == pa.timestamp("us", "UTC")
    assert result["_ts"].cast(pa.int64()).to_pylist() == [1_700_000_000_000_000]
    assert result["at"].type == pa.timestamp(unit, zone)


# ---------------------------------------------------------------------------------------- rows that only abort


def test_null_key_and_null_order_key(counter, opened):
    result = opened(counter).process(events(ts=pa.array([None, 1]), key=pa.array([1, None])))
    assert result["_status"].to_pylist() == ["aborted", "aborted"]
    assert result["_reason"].to_pylist() == ["key: null key of sums", "null: ts"]


def test_int64_extremes(counter, opened):
    engines = opened(counter)
    batch = pa.table(
        {
            "ts": [INT64_MAX, INT64_MIN, 0, 1],
            "key": [INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX],
            "amount": [1, INT64_MIN, INT64_MAX, -1],
        }
    )
    result = engines.process(batch)
    assert result["ts"].to_pylist() == [INT64_MIN, 0, 1, INT64_MAX]
    assert result["_status"].to_pylist() == ["committed", "committed", "aborted", "aborted"]
    assert engines.table("sums").to_pydict() == {"key": [INT64_MIN, INT64_MAX], "total": [INT64_MAX, INT64_MIN]}
    assert engines.watermark == INT64_MAX


def test_nan_is_a_value(opened):
    app = ms.App("nan")
    t = app.table("t", key="int64", columns={"f": "float64"}, default={"f": 0.0})

    @app.on()
    def run(e):
        t[1].f += e.f
        return {"f_now": t[1].f}

    odd = np.array([1.0, np.nan], np.float64)
    odd.view(np.uint64)[1] = 0xFFF8_0000_0000_1234  # a NaN with a sign and a payload
    result = opened(app).process(pa.table({"f": odd}))
    assert np.array(result["f_now"]).view(np.uint64)[1] == 0x7FF8_0000_0000_0000
    assert np.array(result["f"]).view(np.uint64)[1] == 0xFFF8_0000_0000_1234


def test_empty_one_row_and_zero_columns(counter, opened):
    engines = opened(counter)
    empty = engines.process(events().slice(0, 0))
    assert empty.num_rows == 0
    assert empty.column_names == ["ts", "key", "amount", "total", "_status", "_reason", "_epoch", "_ts"]
    assert engines.process(events().slice(0, 1))["_epoch"].to_pylist() == [1]
    assert engines.process(events(ts=pa.array([], pa.int64()), key=pa.nulls(0), amount=pa.nulls(0))).num_rows == 0
    assert engines.process(events())["total"].to_pylist() == [20, 20]


def test_an_app_that_needs_no_columns(opened):
    app = ms.App("blind")
    t = app.table("t", key="int64", columns={"n": "int64"}, default={"n": 0})

    @app.on()
    def run(e):
        t[0].n += 1

    engines = opened(app)
    assert engines.process(pa.table({})).num_rows == 0
    assert engines.process(pa.table({"x": [1, 2, 3]}))["_status"].to_pylist() == ["committed"] * 3
    rows_without_columns = pa.table({"x": [1, 2]}).select([])
    assert engines.process(rows_without_columns).num_rows == 2
    assert engines.table("t")["n"].to_pylist() == [5]


def test_an_app_without_transactions_or_tables(opened):
    engines = opened(ms.App("empty"))
    assert engines.process(pa.table({"x": [1, 2]}))["_status"].to_pylist() == ["unmatched", "unmatched"]


def test_a_string_key_of_one_megabyte(opened):
    app = ms.App("long")
    t = app.table("t", key="string", columns={"s": "string"}, default={"s": ""})

    @app.on()
    def run(e):
        t[e.k].s = t[e.k].s + "x"
        return {"s": t[e.k].s}

    long = "é" * (1 << 19)
    engines = opened(app)
    for _ in range(2):
        result = engines.process(pa.table({"k": [long, long[:-1], long, "b" + long]}))
    assert result["s"].to_pylist() == ["xxx", "xx", "xxxx", "xx"]
    assert engines.table("t").num_rows == 3


def test_duplicate_order_keys_keep_arrival(counter, opened):
    rows = 1000
    batch = pa.table({"ts": [7] * rows, "key": [1] * rows, "amount": list(range(rows))})
    result = opened(counter, threads=(1, 2)).process(batch)
    assert result["amount"].to_pylist() == list(range(rows))


# ------------------------------------------------------------------------------------------------------ limits


def test_too_many_rows(counter, opened):
    engines = opened(counter, ms.Config(max_epoch_rows=2))
    engines.process(events())
    three = pa.concat_tables([events(), events().slice(0, 1)])
    refused(engines, three, "3 rows", "max_epoch_rows=2", "smaller micro-batches", error=ms.LimitError)
    assert engines.table("sums")["total"].to_pylist() == [10, 20]


def test_too_long_strings(opened):
    app = ms.App("long")
    t = app.table("t", key="int64", columns={"s": "string"}, default={"s": ""})

    @app.on()
    def run(e):
        t[e.k].s = t[e.k].s + ms.coalesce(ms.max(e.ss), e.s)

    engines = opened(app, ms.Config(max_string_bytes=4))
    nothing = pa.array([None], pa.list_(pa.string()))
    engines.process(pa.table({"k": [1], "s": ["abc"], "ss": nothing}))
    refused(engines, pa.table({"k": [1], "s": ["ééa"], "ss": nothing}), "column 's'", "5 bytes", error=ms.LimitError)
    lists = pa.table({"k": [1], "s": ["a"], "ss": [["b", "abcde"]]})
    refused(engines, lists, "column 'ss'", "5 bytes", error=ms.LimitError)
    grown = pa.table({"k": [2, 1], "s": ["ab", "cd"], "ss": pa.array([None, None], pa.list_(pa.string()))})
    refused(engines, grown, "grew over max_string_bytes=4", "nothing was changed", error=ms.LimitError)
    assert engines.table("t").to_pydict() == {"key": [1], "s": ["abc"]}
    engines.process(pa.table({"k": [1], "s": ["d"], "ss": nothing}))
    assert engines.table("t").to_pydict() == {"key": [1], "s": ["abcd"]}


def test_too_much_state(counter, opened):
    """The engines count bytes differently, so their messages differ; each must leave everything as it was."""
    for name, engine in opened(counter, ms.Config(max_state_bytes=20_000)).engines.items():
        engine.process(events())
        many = pa.table({"ts": range(3, 5003), "key": range(5000), "amount": [1] * 5000})
        with pytest.raises(ms.LimitError, match="more than max_state_bytes=20000; nothing was changed"):
            engine.process(many)
        assert sorted(engine.table("sums").to_arrow()["total"].to_pylist()) == [10, 20], name
        assert engine.process(events())["_epoch"].to_pylist() == [1, 1]
        assert sorted(engine.table("sums").to_arrow()["total"].to_pylist()) == [20, 40]


@pytest.fixture
def notes():
    """Rows of strings, under keys too long to lie in the index."""
    app = ms.App("notes")
    t = app.table("t", key="string", columns={"s": "string"}, default={"s": ""})

    @app.on(do="write")
    def write(e):
        t[e.k].s = e.s

    @app.on(do="read")
    def read(e):
        return {"found": t[e.k].s}

    @app.on(do="delete")
    def delete(e):
        t.delete(e.k)

    return app


def note(do, keys, text=""):
    return pa.table({"do": [do] * len(keys), "k": keys, "s": [text] * len(keys)})


@pytest.mark.parametrize("strategy", ["serial", "ns-explore/f-schedule/e-abort"])
def test_state_counts_rows_that_are_there(notes, strategy):
    """Not values that were overwritten, nor keys that were only named or have no row any more."""
    long = "a key that is a little longer "
    with notes.open(config=ms.Config(max_state_bytes=1_000_000, strategy=strategy)) as engine:
        for _ in range(3):
            engine.process(note("write", ["a"] * 2000, "x" * 1000))
            assert engine.metrics[-1]["state_bytes"] < 2000
        result = engine.process(note("read", [f"{long}{n}" for n in range(100_000)]))
        assert result["_status"].unique().to_pylist() == ["committed"]
        keys = [f"{long}{n}" for n in range(800)]
        full = pa.concat_tables([note("write", keys, "x" * 1000), note("delete", keys)])
        engine.process(pa.concat_tables([full] * 3))
        assert engine.metrics[-1]["state_rows"] == 1 and engine.metrics[-1]["state_bytes"] < 2000
        engine.process(note("write", keys, "x" * 1000))
        assert 800 * 1040 < engine.metrics[-1]["state_bytes"] < 1_000_000
        before = engine.table("t").to_arrow()
        with pytest.raises(ms.LimitError, match="more than max_state_bytes=1000000; nothing was changed"):
            engine.process(note("write", ["b"], "x" * 200_000))
        assert engine.table("t").to_arrow().equals(before)
        engine.process(note("write", ["b"], "x" * 2000))
        assert engine._core.validate()


# -------------------------------------------------------------------------------------------------------- load


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"key": [1]}, ["load('sums'): column 'total' (int64) is missing"]),
        ({"total": [1]}, ["column 'key' (int64) is missing"]),
        ({"key": [1], "total": [1], "more": [1]}, ["table 'sums' has no column 'more'"]),
        ({"key": [1], "total": [1.5]}, ["column 'total': expected int64, got double"]),
        ({"key": ["1"], "total": [1]}, ["column 'key': expected int64, got string"]),
        ({"key": [1, None], "total": [1, 2]}, ["column 'key' has 1 null(s), the first in row 1"]),
        ({"key": [1, 2, 3], "total": [None, 2, None]}, ["column 'total' has 2 null(s), the first in row 0"]),
        ({"key": [1, 2, 1], "total": [1, 2, 3]}, ["1 key(s) occur twice"]),
    ],
)
def test_load_errors(counter, opened, rows, words):
    engines = opened(counter)
    with pytest.raises(ms.SchemaError) as caught:
        engines.load("sums", pa.table(rows))
    for word in words:
        assert word in str(caught.value)
    assert engines.table("sums").num_rows == 0


def test_load_twice_and_too_late(counter, opened):
    engines = opened(counter)
    engines.load("sums", pa.table({"key": [1, 2], "total": [5, 6]}))
    engines.load("sums", pa.table({"key": pa.array([3], pa.int8()), "total": pa.array([7], pa.int16())}))
    with pytest.raises(ms.SchemaError, match="1 key"):
        engines.load("sums", pa.table({"key": [4, 2], "total": [0, 0]}))
    with pytest.raises(ms.SchemaError, match=r"no table 'sum' \(tables: sums\)"):
        engines.load("sum", pa.table({"key": [1], "total": [1]}))
    with pytest.raises(ms.SchemaError, match="two columns called 'key'"):
        engines.load("sums", pa.table([[1], [2], [3]], ["key", "total", "key"]))
    assert engines.process(events())["total"].to_pylist() == [15, 26]
    with pytest.raises(ms.EpochError, match="after epoch 0"):
        engines.load("sums", pa.table({"key": [9], "total": [1]}))


def test_load_of_other_encodings(opened):
    app = ms.App("load")
    app.table("t", key={"a": "string", "b": "int64"},
              columns={"d": "decimal(9, 3)", "w": "timestamp", "f": "float64", "z": "bool"})  # fmt: skip
    rows = pa.table(
        {
            "f": pa.array([1.5, -0.0], pa.float32()),
            "w": pa.array([1, 2], pa.timestamp("s")),
            "a": pa.array(["x", "x"]).dictionary_encode(),
            "b": pa.chunked_array([pa.array([2], pa.uint8()), pa.array([1], pa.uint8())]),
            "d": pa.array([Decimal("1.1"), Decimal("-2.0")], pa.decimal128(5, 1)),
            "z": pa.array([True, False, True]).slice(1),
        }
    )
    engines = opened(app)
    engines.load("t", rows)
    seconds = [datetime.datetime(1970, 1, 1, 0, 0, n, tzinfo=datetime.UTC) for n in (2, 1)]
    assert engines.table("t").to_pydict() == {
        "a": ["x", "x"], "b": [1, 2], "d": [Decimal("-2.000"), Decimal("1.100")], "w": seconds,
        "f": [-0.0, 1.5], "z": [True, False],
    }  # fmt: skip
    narrow = pa.decimal128(18, 4)
    with pytest.raises(ms.SchemaError, match=r"column 'd': .* does not fit decimal\(9, 3\) exactly"):
        other = rows.set_column(4, "d", pa.array([Decimal("1.0005")] * 2, narrow)).set_column(3, "b", pa.array([8, 9]))
        opened(app).load("t", other)


# ------------------------------------------------------------------------------------------------------ pandas


def test_pandas_frames(counter, opened):
    engines = opened(counter)
    frame = pd.DataFrame({"ts": [2, 1], "key": [1, 1], "amount": [5, 6], "note": ["a", None]}, index=[7, 3])
    result = engines.process(frame)
    assert result.column_names[:4] == ["ts", "key", "amount", "note"]
    assert result["total"].to_pylist() == [6, 11]
    with pytest.raises(ms.SchemaError):
        engines.process(pd.DataFrame({"ts": [1], "key": [1], "amount": [np.nan]}))
    assert engines.process(pd.DataFrame({"ts": [3], "key": [1], "amount": [None]}))["_reason"].to_pylist() == [
        "null: amount"
    ]


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ([1, "a"], "column 'amount' holds int and str (the first str is in row 1), expected one type"),
        ([None, "a", np.nan, "b", 5], "holds str and int (the first int is in row 4)"),
        ([Decimal(1), 1.5, "x"], "holds Decimal and float and str (the first float is in row 1)"),
        ([[1], 2], "holds list and int (the first int is in row 1)"),
        ([1, 2**70], "column 'amount' is object and can't become an Arrow column"),
        ([1j], "column 'amount' is complex128 and can't become an Arrow column"),
    ],
)
def test_pandas_columns_that_arrow_has_no_type_for(counter, opened, amounts, words):
    engines = opened(counter)
    column = pd.Series(amounts) if isinstance(amounts[0], complex) else pd.Series(amounts, dtype=object)
    rows = range(len(amounts))
    message = refused(engines, pd.DataFrame({"ts": rows, "key": rows, "amount": column}), words)
    assert message.endswith("convert it, frame['amount'] = frame['amount'].astype(…), or drop it")
    with pytest.raises(ms.SchemaError, match="column 'total'"):
        engines.load("sums", pd.DataFrame({"key": rows, "total": column}))
    assert engines.process(events())["total"].to_pylist() == [10, 20]


def test_pandas_columns_of_one_name(counter, opened):
    twice = pd.DataFrame([[1, 1, 1, 2]], columns=["ts", "key", "amount", "ts"])
    refused(opened(counter), twice, "the frame has two columns called ts; rename one")


def test_record_batches_and_readers(counter, opened):
    engines = opened(counter)
    batch = events().to_batches()[0]
    assert engines.process(batch).num_rows == 2
    for engine in engines.engines.values():
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch, batch])
        assert engine.process(reader).num_rows == 4
