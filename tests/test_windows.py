"""Windows and triggers: what is refused when an app is built, and what needs more than a scenario to show."""

import datetime

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.reference import open_reference
from morphspark.spans import Span, SpanError, parse_span


def new_app(order_by="ts", clock="int64", retain=None):
    events = {"ts": clock, "k": "int64", "v": "float64", "ks": "list<int64>"}
    app = ms.App("windows", order_by=order_by, events=events if clock else None)
    t = app.table(
        "t", key="int64", columns={"v": "float64", "s": "string", "b": "bool"},
        default={"v": 0.0, "s": "", "b": False}, retain=retain,
    )  # fmt: skip
    return app, t


@pytest.mark.parametrize(
    ("given", "size"),
    [("5 min", 300_000_000), ("1.5s", 1_500_000), ("2 h", 7_200_000_000), ("10 ms", 10_000), ("1 day", 86_400_000_000)],
)
def test_durations(given, size):
    assert parse_span(given, "x") == Span("time", size)


def test_a_timedelta_is_a_duration():
    assert parse_span(datetime.timedelta(seconds=2), "x") == Span("time", 2_000_000)


@pytest.mark.parametrize("given", ["5 parsecs", "", "min", 0, -1, "0 s", True, 1.5, "0.0000001 s", None])
def test_no_spans(given):
    with pytest.raises(SpanError, match="x: "):
        parse_span(given, "x")


def read(window):
    return lambda e: {"r": window(e)}


REFUSED = [
    ("int64", None, lambda t, e: t[e.k].over("5 min").v.sum(), "write a whole number, such as 300, not 5 min"),
    ("timestamp", None, lambda t, e: t[e.k].over(5).v.sum(), "write a duration such as '5 min', not 5"),
    ("string", None, lambda t, e: t[e.k].over(5).v.sum(), r"first order column is string.*over\(rows=…\)"),
    ("int64", 10, lambda t, e: t[e.k].over(11).v.sum(), r"11 is more than table 't' retains \(10\)"),
    ("int64", None, lambda t, e: t[e.k].over().v.sum(), "takes a span"),
    ("int64", None, lambda t, e: t[e.k].over(3, rows=3).v.sum(), "one of the two"),
    ("int64", None, lambda t, e: t[e.k].over(rows=0).v.sum(), "more than nothing"),
    ("int64", None, lambda t, e: t[e.k].over(rows="5").v.sum(), "a whole number of versions"),
    ("int64", None, lambda t, e: t[e.k].over(5).s.sum(), r"sum\(\) takes numbers, not string"),
    ("int64", None, lambda t, e: t[e.k].over(5).b.max(), r"max\(\) takes values that have an order, not bool"),
    ("int64", None, lambda t, e: t[e.k].over(5).v.median(), "a window has no 'median'; it has sum"),
    ("int64", None, lambda t, e: t[e.k].over(5).mean(), r"name a column first: .over\(…\).v.mean\(\)"),
    ("int64", None, lambda t, e: t[e.k].over(5).w.mean(), "no column 'w'"),
    ("int64", None, lambda t, e: t[e.k].over(5).v + 1, "aggregate them"),
    ("int64", None, lambda t, e: t[e.k].over(5).v.mean, "with parentheses"),
    ("int64", None, lambda t, e: t[e.k].over(5), "a window is not a value"),
    ("int64", None, lambda t, e: ms.window([e.k], 5).v.sum(), "ms.window takes rows"),
    ("int64", None, lambda t, e: ms.window([], 5).v.sum(), "ms.window takes rows"),
    ("int64", None, lambda t, e: ms.window([t[k + 1] for k in ms.each(e.ks)], 5).v.sum(), "named by elements of one"),
]


@pytest.mark.parametrize(("clock", "retain", "expression", "words"), REFUSED)
def test_refused_windows(clock, retain, expression, words):
    app, t = new_app(clock=clock, retain=retain)
    with pytest.raises(ms.TraceError, match=words):
        app.on()(lambda_named(lambda e: {"r": expression(t, e)}))


def lambda_named(function):
    function.__name__ = "reads"
    return function


def test_windows_by_time_need_an_order():
    app, t = new_app(order_by=None)
    with pytest.raises(ms.TraceError, match=r"App\(order_by=…\)"):
        app.on()(lambda_named(lambda e: {"r": t[e.k].over(5).v.sum()}))
    with pytest.raises(ms.TraceError, match=r"retain.*App\(order_by=…\)"):
        new_app(order_by=None, retain=5)
    app.on()(lambda_named(lambda e: {"r": t[e.k].over(rows=5).v.sum()}))


def test_the_unit_may_be_known_only_with_the_first_batch():
    app, t = new_app(clock=None)
    app.on()(lambda_named(lambda e: {"r": t[e.k].over(5).v.sum()}))
    with open_reference(app) as engine, pytest.raises(ms.SchemaError, match="write a duration"):
        engine.process(pa.table({"ts": pa.array([1], pa.timestamp("us")), "k": [1]}))


def test_retention_is_the_largest_window():
    app, t = new_app()
    app.on()(lambda_named(lambda e: {"r": t[e.k].over(5).v.sum(), "q": t[e.k].over(rows=7).v.sum()}))

    @app.every(2, window=9, each=t)
    def every(w):
        return {"n": t[w.key].over(3).v.count()}

    (spec,) = app.program.tables
    assert (spec.kept.span, spec.kept.rows, spec.kept.limit) == (9, 7, 9)
    assert ms.Program.from_json(app.program.to_json()) == app.program


def test_refused_triggers():
    app, t = new_app(retain=10)
    other, foreign = new_app()
    with pytest.raises(ms.TraceError, match="11 is more than table 't' retains"):
        app.every(1, window=11, each=t)
    with pytest.raises(ms.TraceError, match="11 is more than table 't' retains"):
        app.session(gap=11, each=t)
    with pytest.raises(ms.TraceError, match="expected a table of this app"):
        app.every(1, each=foreign)
    with pytest.raises(ms.TraceError, match="expected a table of this app"):
        app.session(gap=1, each=None)
    with pytest.raises(ms.TraceError, match="write a whole number"):
        app.every("1 s")

    def writes(w):
        t[w.key].v = 1.0

    with pytest.raises(ms.TraceError, match="can't write to 't'"):
        app.every(1, each=t)(writes)

    def without_key(w):
        return {"r": w.key}

    with pytest.raises(ms.TraceError, match="no each=table"):
        app.every(1)(without_key)

    def other_name(w):
        return {"r": w.begin}

    with pytest.raises(ms.TraceError, match="w has no 'begin'"):
        app.every(1)(other_name)

    def unlimited(w):
        return {"n": foreign[w.key].over(w).v.count()}

    with pytest.raises(ms.TraceError, match="say how long a session can be"):
        other.session(gap=3, each=foreign)(unlimited)


# ------------------------------------------------------------------------------------- triggers that fill event columns


def roads():
    """The triggers of the API document, as they stand: they return columns that events have, too."""
    app = ms.App("roads", order_by="ts")
    speeds = app.table(
        "speeds", key="int64", columns={"speed": "float64"}, default={"speed": 0.0}, retain="10 min"
    )  # fmt: skip

    @app.on()
    def drive(e):
        speeds[e.segment].speed = e.speed

    @app.every("60 s", window="5 min", each=speeds)
    def summary(w):
        return {"segment": w.key, "avg": speeds[w.key].over("5 min").speed.mean(), "until": w.end}

    return app


def drives(segment, **more):
    ts = pa.array([0, 30_000_000, 60_000_000], pa.timestamp("us", "UTC"))
    return pa.table({"ts": ts, "segment": segment, "speed": [10.0, 20.0, 30.0], **more})


@pytest.mark.parametrize("open_app", [lambda app: app.open(), open_reference])
def test_a_trigger_fills_a_column_of_the_events(open_app):
    with open_app(roads()) as engine:
        rows = engine.process(drives(pa.array([7, 7, 8], pa.int16())))
    assert rows["segment"].type == pa.int64()  # that of the trigger, which holds both
    assert rows["segment"].to_pylist() == [7, 7, 7, 8]
    assert rows["_kind"].to_pylist() == ["drive", "drive", "summary", "drive"]
    assert rows["avg"].to_pylist() == [None, None, 15.0, None]
    assert rows.column_names[:4] == ["ts", "segment", "speed", "avg"]


def test_a_trigger_fills_columns_of_its_own_type_only():
    wrong = drives(pa.array([7, 7, 8]), avg=pa.array(["a", "b", "c"]))
    with roads().open() as engine:
        with pytest.raises(ms.SchemaError, match="'avg' is float64, and the events' column of this name is string"):
            engine.process(wrong)
        assert engine.epoch == 0 and engine.table("speeds").to_arrow().num_rows == 0
        filled = engine.process(drives(pa.array([7, 7, 8]), avg=pa.array([1.0, 2.0, None])))
    assert filled["avg"].to_pylist() == [1.0, 2.0, 15.0, None]
