"""User functions: mistakes when built, results that don't fit, interrupts, metrics, the disk. What they compute is
tested by scenarios and properties, on every strategy."""

import datetime
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import morphspark as ms
from morphspark import callee, jit, types
from morphspark.strategy import NAMES
from morphspark.testing import Schedule, both_engines

STRATA = "s-explore-bfs/v-schedule/e-abort"


@ms.udf("float64")
def risk(balance, amount=1):
    if amount < 0:
        raise ValueError("negative amount")
    return balance / amount


@ms.udf("float64", vector=True)
def half(x):
    return x * 0.5


@ms.udf("int64", python=True)
def length(text):
    return len(text)


def app_of(function, *columns, events=None):
    """An app that returns what a function makes of the event's columns."""
    app = ms.App("functions", events=events)

    @app.on()
    def tx(e):
        made = function(*(e[name] for name in columns))
        return {"y": made[0] if isinstance(made, tuple) else made}

    return app


def results(app, table, schedules=None):
    with both_engines(app, schedules=schedules or [Schedule("serial"), Schedule(STRATA, threads=2, seed=1)]) as engines:
        found = engines.process(table)
    return list(zip(found["_status"].to_pylist(), found["_reason"].to_pylist(), found["y"].to_pylist(), strict=True))


def reasons(app, table):
    return [reason for _, reason, _ in results(app, table)]


# ------------------------------------------------------------------------------------------------- decorating


def test_outside_of_a_transaction_it_is_the_function_that_it_was():
    assert risk(10, 4) == 2.5
    assert half(np.array([1.0, 3.0])).tolist() == [0.5, 1.5]
    assert "risk(balance, amount=1) -> float64, compiled" in repr(risk)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.udf(lambda x: x), 'needs the type that it returns: write @ms.udf\\("float64"\\)'),
        (lambda: ms.udf(), "needs the type that it returns"),
        (lambda: ms.udf("float64", vector=True, python=True), "choose one"),
        (lambda: ms.udf("float32"), "unknown type 'float32'"),
        (lambda: ms.udf([]), "at least one value"),
        (lambda: ms.udf("list<int64>"), "can't return list<int64>"),
        (lambda: ms.udf("string"), "only a function with python=True can return string"),
        (
            lambda: ms.udf(["int64", "decimal(9, 2)"], vector=True),
            "only a function with python=True can return decimal",
        ),
        (lambda: ms.udf("float64")(len), "decorates a plain function"),
        (lambda: ms.udf("float64")(lambda x: x), "function '<lambda>'"),
    ],
)
def test_mistakes_of_the_decorator(make, message):
    with pytest.raises(ms.MorphsparkError, match=message):
        make()


def test_without_numba_the_way_out_is_told(monkeypatch):
    monkeypatch.setattr(jit, "available", lambda: False)
    with pytest.raises(ms.TraceError, match="pip install 'morphspark\\[jit\\]', or use python=True"):
        ms.udf("float64")(risk.function)
    assert ms.udf("float64", python=True)(risk.function)(10, 4) == 2.5


# --------------------------------------------------------------------------------------------- when it is built


@ms.udf("float64")
def unknown_name(x):
    return nobody_knows(x)  # noqa: F821


@ms.udf("int64")
def fraction(x):
    return x / 2


@ms.udf(["int64", "int64"])
def one_of_two(x):
    return x


@ms.udf("bool")
def number_for_bool(x):
    return x + 1


@ms.udf("float64")
def no_such_addition(x):
    return x + "text"


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (unknown_name, "int64", "unknown_name can't be compiled for \\(int64\\): .*nobody_knows.*use python=True"),
        (no_such_addition, "int64", "no_such_addition can't be compiled .*test_udf.py.*use python=True"),
        (fraction, "int64", "fraction returns float64, but was declared to return int64"),
        (one_of_two, "int64", "one_of_two returns int64, but was declared to return int64, int64"),
        (number_for_bool, "int64", "number_for_bool returns int64, but was declared to return bool"),
        (risk, "string", "risk can't take string; use @ms.udf\\(…, python=True\\)"),
        (risk, "decimal(9, 2)", "risk can't take decimal\\(9, 2\\); multiply by 1.0 to make it a float64"),
        (half, "string", "half can't take string; use @ms.udf\\(…, python=True\\)"),
        (length, "list<int64>", "length takes single values, not list<int64>"),
    ],
)
def test_what_does_not_fit_is_an_error_when_types_are_known(function, kind, message):
    with pytest.raises(ms.TraceError, match=message):
        app_of(function, "x", events={"x": kind})
    with app_of(function, "x").open() as engine:  # types are those of the first batch
        with pytest.raises(ms.SchemaError, match=message + ".*column 'x' is"):
            engine.process(pa.table({"x": pa.array([], types.to_arrow(types.parse(kind, "x")))}))
        assert engine.epoch == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: risk(), "missing a required argument: 'balance'"),
        (lambda e: risk(1, 2, 3), "too many positional arguments"),
        (lambda e: risk(e.x, price=2), "unexpected keyword argument 'price'"),
        (lambda e: risk(e.x) and 1, "has no truth value"),
        (lambda e: risk([1]), "an argument of risk is a list"),
        (lambda e: ms.udf("float64", vector=True)(nothing)(), "takes no array"),
        (lambda e: risk(e), "an event or a list is not a value"),
    ],
)
def test_mistakes_of_a_call(call, message):
    app = ms.App("functions")
    with pytest.raises(ms.TraceError, match=message):

        @app.on()
        def tx(e):
            call(e)


def nothing():
    return 1


def test_names_defaults_and_constants_are_arguments():
    app = ms.App("functions")

    @app.on()
    def tx(e):
        return {"a": risk(amount=4, balance=e.x), "b": risk(e.x), "c": risk(10, 4)}

    with both_engines(app) as engines:
        found = engines.process(pa.table({"x": [10, 20]}))
    assert found.select(["a", "b", "c"]).to_pydict() == {"a": [2.5, 5.0], "b": [10.0, 20.0], "c": [2.5, 2.5]}


def test_two_functions_of_one_name_are_refused():
    def make(factor):
        @ms.udf("float64")
        def times(x):
            return x * factor

        return times

    two, three = make(2), make(3)
    assert two.spec.hash != three.spec.hash  # what it takes from outside counts
    app = ms.App("functions")
    with pytest.raises(ms.TraceError, match="two functions are called 'times'"):

        @app.on()
        def both(e):
            return {"a": two(e.x), "b": three(e.x)}

    @app.on(x=1)
    def one(e):
        return {"a": two(e.x)}

    with pytest.raises(ms.TraceError, match="two functions are called 'times'"):

        @app.on(x=2)
        def other(e):
            return {"a": three(e.x)}


# ------------------------------------------------------------------------------------------------ when it runs


def python_function(result, value):
    @ms.udf(result, python=True)
    def give(x):
        return value

    return give


@pytest.mark.parametrize(
    ("result", "value", "reason"),
    [
        ("float64", "a", "returned a str, not float64"),
        ("int64", 0.5, "returned a float, not int64"),
        ("int64", True, "returned a bool, not int64"),
        ("int64", 2**63, "returned 9223372036854775808, which is outside int64"),
        ("float64", 10**400, "returned an int that is too large for float64"),
        ("bool", 1, "returned a int, not bool"),
        ("string", b"a", "returned a bytes, not string"),
        ("string", "\ud800", "returned text that is not valid Unicode: surrogates not allowed"),
        ("timestamp", 5, "returned a int, not timestamp"),
        ("decimal(4, 2)", Decimal("100"), "returned 100, which does not fit decimal(4, 2)"),
        ("decimal(4, 2)", Decimal("nan"), "returned NaN, not decimal(4, 2)"),
        ("decimal(4, 2)", Decimal("1e999"), "returned 1E+999, which does not fit decimal(4, 2)"),
        (["int64", "int64"], 1, "returned a int, not 2 values"),
        (["int64", "int64"], (1, 2, 3), "returned 3 values, not 2"),
    ],
)
def test_a_python_result_of_another_type_aborts(result, value, reason):
    give = python_function(result, value)
    assert reasons(app_of(give, "x"), pa.table({"x": [1]})) == [f"udf: give: {reason}"]


@pytest.mark.parametrize(
    ("result", "value", "expected"),
    [
        ("float64", 3, 3.0),
        ("float64", np.float32(0.5), 0.5),
        ("int64", np.int8(3), 3),
        ("bool", np.bool_(True), True),
        ("string", "é", "é"),
        ("string", None, None),
        ("timestamp", datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        ("decimal(4, 2)", Decimal("0.125"), Decimal("0.13")),
        ("decimal(4, 2)", 7, Decimal("7.00")),
    ],
)
def test_python_results(result, value, expected):
    assert results(app_of(python_function(result, value), "x"), pa.table({"x": [1]})) == [("committed", None, expected)]


def test_python_arguments_are_what_a_user_expects():
    seen = []

    @ms.udf("bool", python=True)
    def look(*values):
        seen.append(values)
        return True

    columns = {
        "i": pa.array([1]),
        "f": pa.array([0.5]),
        "b": pa.array([True]),
        "s": pa.array(["é"]),
        "t": pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("us")),
        "d": pa.array([Decimal("-1.50")], pa.decimal128(9, 2)),
    }
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    results(app_of(look, *columns), pa.table(columns))
    assert {repr(one) for one in seen} == {repr((1, 0.5, True, "é", moment, Decimal("-1.50")))}


@pytest.mark.parametrize(
    ("result", "make", "reason"),
    [
        ("float64", lambda x: x.sum(), "returned an array of shape () for arguments of shape (1,)"),
        ("float64", lambda x: x[:, None], "returned an array of shape (1, 1) for arguments of shape (1,)"),
        ("int64", lambda x: x * 0.5, "returned an array of float64, not int64"),
        ("bool", lambda x: x, "returned an array of int64, not bool"),
        ("float64", lambda x: x.astype(str), "returned an array of <U21, not float64"),
        ("timestamp", lambda x: np.full(len(x), np.datetime64("NaT")), "returned NaT"),
        (["int64", "int64"], lambda x: x, "returned a ndarray, not 2 values"),
    ],
)
def test_a_vector_result_of_another_shape_or_type_aborts(result, make, reason):
    @ms.udf(result, vector=True)
    def give(x):
        return make(x)

    assert reasons(app_of(give, "x"), pa.table({"x": range(40)})) == [f"udf: give: {reason}"] * 40


def test_vector_arguments_and_results_of_every_type():
    seen = []

    @ms.udf(["int64", "float64", "bool", "timestamp"], vector=True)
    def same(i, f, b, t):
        seen.append((i.dtype, f.dtype, b.dtype, t.dtype))
        i += 1  # its own copy
        return i.astype(np.int32), f.astype(np.float32), b, t.astype("datetime64[ms]")

    app = ms.App("functions")

    @app.on()
    def tx(e):
        i, f, b, t = same(e.i, e.f, e.b, e.t)
        return {"i2": i, "f2": f, "b2": b, "t2": t, "i3": e.i}

    table = pa.table(
        {
            "i": range(50),
            "f": [i / 4 for i in range(50)],
            "b": [i % 2 == 0 for i in range(50)],
            "t": pa.array([i * 1_000_000 for i in range(50)], pa.timestamp("us", "UTC")),
        }
    )
    with both_engines(app, schedules=[Schedule("serial"), Schedule(STRATA, threads=2, seed=1)]) as engines:
        found = engines.process(table)
    assert found["i2"].to_pylist() == list(range(1, 51)) and found["i3"].to_pylist() == list(range(50))
    for name in "fbt":
        assert found[f"{name}2"].to_pylist() == table[name].to_pylist()
    assert {tuple(map(str, one)) for one in seen} == {("int64", "float64", "bool", "datetime64[us]")}


def test_one_bad_row_does_not_spoil_its_group():
    lengths = []

    @ms.udf("float64", vector=True)
    def picky(x):
        lengths.append(len(x))
        if (x == 17).any():
            raise ValueError("seventeen")
        return x * 1.0

    app = app_of(picky, "x")
    with app.open(config=ms.Config(strategy=STRATA, threads=1)) as engine:
        found = engine.process(pa.table({"x": range(100)}))
        assert engine.metrics[-1]["python"]["picky"]["calls"] == len(lengths)
    groups = [size for size in lengths if size > 1]
    assert sum(groups) == 100  # then each row of the group at fault, alone
    assert len(lengths) - len(groups) == groups[0] and lengths[1 : 1 + groups[0]] == [1] * groups[0]
    expected = ["udf: picky: ValueError: seventeen" if x == 17 else None for x in range(100)]
    assert found["_reason"].to_pylist() == expected
    assert found["y"].to_pylist() == [None if x == 17 else float(x) for x in range(100)]


def test_a_string_over_the_limit_ends_the_epoch():
    @ms.udf("string", python=True)
    def long(n):
        return "x" * n

    with both_engines(app_of(long, "x"), ms.Config(max_string_bytes=10)) as engines:
        with pytest.raises(ms.LimitError, match="a string grew over max_string_bytes=10"):
            engines.process(pa.table({"x": [1, 11]}))
        assert engines.process(pa.table({"x": [10]}))["y"].to_pylist() == ["x" * 10]


def test_long_reasons_are_cut_and_kept_on_one_line():
    @ms.udf("int64", python=True)
    def talk(x):
        raise ValueError("line\nline " + "x" * 500)

    (reason,) = reasons(app_of(talk, "x"), pa.table({"x": [1]}))
    assert reason.startswith("udf: talk: ValueError: line line xxx") and reason.endswith("x…")
    assert len(reason) == callee.REASON_CHARACTERS_MAX


def test_an_index_out_of_bounds_aborts_and_reads_no_foreign_memory():
    table = np.array([1.0, 2.0, 3.0])

    @ms.udf("float64")
    def lookup(i):
        return table[i]

    found = results(app_of(lookup, "x"), pa.table({"x": [0, 2, 3, 10**12]}))
    assert [y for _, _, y in found] == [1.0, 3.0, None, None]
    assert found[2][1].startswith("udf: lookup: IndexError")


# ------------------------------------------------------------------------------------------- interrupts, threads


@pytest.mark.parametrize("strategy", ["serial", STRATA, "ns-explore/f-schedule/e-abort"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_ends_a_program_ends_the_epoch(strategy, error):
    armed = [True]

    @ms.udf("int64", python=True)
    def stop(x):
        if armed and x == 30:
            raise error("now")
        return x

    app = ms.App("functions")
    sums = app.table("sums", key="int64", columns={"n": "int64"}, default={"n": 0})

    @app.on()
    def tx(e):
        sums[e.x].n += stop(e.x)
        sums[e.k].n += stop(e.k)

    events = pa.table({"x": range(60), "k": range(60, 120)})
    with app.open(config=ms.Config(strategy=strategy, threads=2)) as engine:
        with pytest.raises(error, match="now"):
            engine.process(events)
        assert engine.epoch == 0 and engine.table("sums").to_arrow().num_rows == 0
        armed.clear()
        engine.process(events)
        assert engine.epoch == 1


def test_ctrl_c_inside_of_a_function():
    @ms.udf("int64", python=True)
    def slow(x):
        if x == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return x

    with app_of(slow, "x").open() as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.process(pa.table({"x": range(10)}))
        assert engine.epoch == 0


def test_functions_run_while_other_threads_use_python():
    """The engine's threads wait for the GIL, never for each other while they hold it."""
    done = threading.Event()

    def busy():
        while not done.is_set():
            sum(range(1000))

    other = threading.Thread(target=busy)
    other.start()
    try:
        app = app_of(length, "s")
        expected = [len(f"{i}") for i in range(500)]
        for strategy in NAMES:
            with app.open(config=ms.Config(strategy=strategy, threads=3)) as engine:
                found = engine.process(pa.table({"s": [f"{i}" for i in range(500)]}))
                assert found["y"].to_pylist() == expected
    finally:
        done.set()
        other.join()


# ----------------------------------------------------------------------------------------------------- metrics


def test_metrics_say_that_python_ran():
    app = ms.App("functions")

    @app.on()
    def tx(e):
        return {"a": risk(e.x), "b": half(e.x), "c": length(e.s)}

    with app.open(config=ms.Config(strategy=STRATA, threads=1)) as engine:
        engine.process(pa.table({"x": [float(i) for i in range(100)], "s": ["a"] * 100}))
        ran = engine.metrics[-1]["python"]
        assert {name: one["rows"] for name, one in ran.items()} == {"half": 100, "length": 100}
        assert ran["half"]["calls"] < 5 and ran["length"]["calls"] == 100
        assert all(one["ms"] > 0 for one in ran.values())
        engine.process(pa.table({"x": [1.0], "s": ["a"]}))
        assert engine.metrics[-1]["python"]["half"]["calls"] == 1  # of this epoch


def test_metrics_are_silent_without_python():
    with app_of(risk, "x").open() as engine:
        engine.process(pa.table({"x": [1.0]}))
        assert engine.metrics[-1]["python"] == {}


def test_an_ad_hoc_call_may_use_functions():
    app = ms.App("functions")
    sums = app.table("sums", key="string", columns={"n": "int64"}, default={"n": 0})

    @app.on()
    def tx(e):
        sums[e.s].n += length(e.s)

    with app.open() as engine:
        assert engine.call(tx, s="abc").status == "committed"
        assert engine.call(lambda_with_risk(), x=5.0).columns == {"y": 5.0}
        assert engine.table("sums").to_pandas()["n"].tolist() == [3]


def lambda_with_risk():
    def ad_hoc(e):
        return {"y": risk(e.x)}

    return ad_hoc


# ---------------------------------------------------------------------------------------------------- programs


def test_a_program_names_its_functions():
    app = app_of(risk, "x")
    (spec,) = app.program.functions
    assert (spec.name, spec.kind, spec.results) == ("risk", "compiled", (types.FLOAT64,))
    again = ms.Program.from_json(app.program.to_json())
    assert again == app.program and again.hash == app.program.hash
    assert "risk(e.x, 1)" in str(app.program)
    assert '"functions":' not in app_of(lambda x: x, "x").program.to_json()  # as it was before there were any


def test_source_and_kind_change_the_hash():
    def first():
        def f(x):
            return x + 1

        return f

    def second():
        def f(x):
            return x + 2

        return f

    hashes = [
        app_of(ms.udf("int64", **kind)(make()), "x").program.hash
        for make in (first, second)
        for kind in ({}, {"python": True}, {"vector": True})
    ]
    assert len(set(hashes)) == 6
    assert app_of(ms.udf("int64")(first()), "x").program.hash == hashes[0]


def test_an_app_with_functions_travels():
    app = pickle.loads(pickle.dumps(app_of(half, "x")))
    assert results(app, pa.table({"x": [1.0, 3.0]})) == [("committed", None, 0.5), ("committed", None, 1.5)]


def test_an_app_of_a_script_travels_to_another_process(tmp_path):
    """As to a Spark Connect server, where the script's source is not."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import sys
            import morphspark as ms
            from pyspark import cloudpickle

            @ms.udf("float64")
            def third(x):
                return x / 3

            app = ms.App("functions")

            @app.on()
            def tx(e):
                return {"y": third(e.x)}

            open(sys.argv[1], "wb").write(cloudpickle.dumps(app))
        """)
    )
    subprocess.run([sys.executable, str(script), str(tmp_path / "app")], check=True)
    script.unlink()
    app = pickle.loads((tmp_path / "app").read_bytes())
    assert results(app, pa.table({"x": [6.0]})) == [("committed", None, 2.0)]


def test_a_program_without_its_functions_can_not_run():
    program = ms.Program.from_json(app_of(risk, "x").program.to_json().replace('"risk"', '"risky"'))
    with pytest.raises(callee.Mismatch, match="function 'risky' is not defined in this process"):
        callee.function_of(program.functions[0])


# ------------------------------------------------------------------------------------------------ the directory


def ledger(function):
    app = ms.App("functions", order_by="ts")
    sums = app.table("sums", key="int64", columns={"n": "float64"}, default={"n": 0.0})

    @app.on()
    def tx(e):
        sums[e.k].n += function(e.x)

    return app


EVENTS = pa.table({"ts": [1, 2, 3], "k": [1, 2, 1], "x": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("function", [risk, half], ids=["compiled", "vector"])
def test_state_is_bound_to_the_functions(tmp_path, function):
    with ledger(function).open(tmp_path) as engine:
        engine.process(EVENTS)
        before = engine.table("sums").to_pandas()
    with ledger(function).open(tmp_path) as engine:
        assert engine.table("sums").to_pandas().equals(before)

    def other(x):
        return x * 7.0

    other.__name__ = function.__name__
    changed = ms.udf("float64", vector=function is half)(other)
    with pytest.raises(ms.StateError, match=f"transaction 'tx' is another \\(function '{function.__name__}' is\\)"):
        ledger(changed).open(tmp_path)
    with ledger(changed).open(tmp_path, evolve="program") as engine:
        assert engine.table("sums").to_pandas().equals(before)


def test_commands_of_compiled_functions_run_again(tmp_path):
    config = ms.Config(log="command")
    with ledger(risk).open(tmp_path, config) as engine:
        engine.process(EVENTS)
        before = engine.table("sums").to_pandas()
    with ledger(risk).open(tmp_path, config) as engine:
        assert engine.table("sums").to_pandas().equals(before)


@pytest.mark.parametrize("function", [half, python_function("float64", 1.0)], ids=["vector", "python"])
def test_functions_under_the_gil_are_never_logged_as_commands(tmp_path, function):
    with pytest.raises(ms.ConfigError, match=f'log="command" runs transactions again .* {function.__name__} '):
        ledger(function).open(tmp_path, ms.Config(log="command"))
    with ledger(function).open(tmp_path) as engine:
        assert engine.config.log == "delta"
    with ledger(function).open() as engine:
        assert engine.config.log == "auto"


# ----------------------------------------------------------------------------------------------------- the disk

PROGRAM = """
import morphspark as ms
from morphspark import callee, jit, types

FACTOR = {factor}

@ms.udf("float64")
def times(x):
    if x < 0:
        raise ValueError("negative")
    return x * FACTOR

made = callee.callee(times.spec, (types.FLOAT64,))
try:
    made.call([-1.0])
except callee.UserFailure as failure:
    why = failure.reason
print(made._entry.cached, made.call([2.0]), why)
"""


def test_compiled_functions_are_kept_on_the_disk(tmp_path):
    program = tmp_path / "program.py"
    cache = tmp_path / "cache"

    def run(factor):
        program.write_text(textwrap.dedent(PROGRAM.format(factor=factor)))
        environment = {**os.environ, "MORPHSPARK_CACHE_DIR": str(cache)}
        return subprocess.run(
            [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    why = "udf: times: ValueError: negative"
    assert run(2) == f"False (4.0,) {why}"
    assert run(2) == f"True (4.0,) {why}"
    assert run(3) == f"False (6.0,) {why}"  # what a function takes from outside is part of it
    for index in cache.rglob("*.nbi"):
        index.write_bytes(b"broken")
    assert run(2) == f"False (4.0,) {why}"
    assert oct(next(cache.rglob("*.py")).parent.stat().st_mode & 0o777) == "0o700"


def test_without_a_place_on_the_disk_functions_are_compiled_each_time(monkeypatch, tmp_path):
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    monkeypatch.setenv("MORPHSPARK_CACHE_DIR", str(nowhere))

    @ms.udf("float64")
    def thirds(x):
        return x / 3

    assert results(app_of(thirds, "x"), pa.table({"x": [6.0]})) == [("committed", None, 2.0)]
