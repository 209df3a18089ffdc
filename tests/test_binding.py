"""A state directory belongs to one app: what may change, and what it takes."""

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.durable.directory import StateDirectory

EVENTS = pa.table({"ts": [1, 2], "key": ["a", "b"], "amount": [10, 20]})


def build(name="shop", columns=None, more=(), factor=1, order_by="ts", seed=0, default=None, key="string", bonus=False):
    app = ms.App(name, order_by=order_by, seed=seed)
    columns = {"total": "int64", **(columns or {})}
    zeros = {"int64": 0, "string": "new", "float64": 0.5}
    given = {name: zeros[kind] for name, kind in columns.items()}
    sums = app.table("sums", key=key, columns=columns, default={**given, **(default or {})})
    tables = [app.table(one, key="int64", columns={"n": "int64"}, default={"n": 3}) for one in more]

    @app.on()
    def add(e):
        sums[e.key].total += e.amount * factor
        if bonus:
            tables[0][1].n += 1
        return {"total": sums[e.key].total}

    return app


def rows(engine, table="sums"):
    return sorted(map(tuple, engine.table(table).to_pandas().values.tolist()))


@pytest.fixture(params=["delta", "command"])
def path(request, tmp_path):
    with build().open(tmp_path, ms.Config(log=request.param)) as engine:
        engine.process(EVENTS)
        engine.process(EVENTS)
    return tmp_path


def test_the_same_program_is_the_same(path):
    with build().open(path) as engine:
        assert rows(engine) == [("a", 20), ("b", 40)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"more": ["extra"]}, "other tables: table 'extra' is new.*evolve='tables'"),
        ({"columns": {"note": "string"}}, "other tables: table 'sums': column 'note' is new.*evolve='tables'"),
        ({"factor": 2}, "another program: transaction 'add' is another.*evolve='program'"),
        ({"seed": 7}, "the seed was 0, is 7.*evolve='program'"),
        ({"default": {"total": 5}}, "table 'sums' has another default.*evolve='program'"),
    ],
)
def test_a_change_must_be_asked_for(path, change, message):
    with pytest.raises(ms.StateError, match=message):
        build(**change).open(path)
    with pytest.raises(ms.StateError, match=message):
        build(**change).open(path, read_only=True)
    with build().open(path) as engine:  # nothing happened
        assert rows(engine) == [("a", 20), ("b", 40)]


@pytest.mark.parametrize("evolve", [None, "tables", "program"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "other"}, "holds the state of app 'shop', and app 'other' wants to open it"),
        ({"order_by": ["ts", "key"]}, r"order_by was \['ts'\], is \['ts', 'key'\]"),
        ({"key": {"k": "string", "l": "string"}}, "table 'sums' has another key"),
    ],
)
def test_what_can_not_change(path, change, message, evolve):
    app = build(**change) if "key" not in change else rebuilt(key=change["key"])
    with pytest.raises(ms.StateError, match=message):
        app.open(path, evolve=evolve)


def rebuilt(key="string", columns=None, default=None, name="sums"):
    app = ms.App("shop", order_by="ts")
    app.table(name, key=key, columns=columns or {"total": "int64"}, default=default)
    return app


@pytest.mark.parametrize(
    ("app", "message"),
    [
        (rebuilt(name="other"), "table 'sums' is gone"),
        (rebuilt(columns={"sum": "int64"}), "column 'total' is gone"),
        (rebuilt(columns={"total": "float64"}), "column 'total' was int64, is float64"),
        (
            rebuilt(columns={"total": "int64", "x": "int64"}),
            "column 'x' is new, but the table has no default for rows that are there",
        ),
    ],
)
def test_nothing_may_go(path, app, message):
    with pytest.raises(ms.StateError, match=message):
        app.open(path, evolve="program")


def test_added_tables_and_columns(path):
    app = build(more=["extra"], columns={"note": "string", "share": "float64"})
    with app.open(path, evolve="tables") as engine:
        assert rows(engine) == [("a", 20, "new", 0.5), ("b", 40, "new", 0.5)]
        assert rows(engine, "extra") == []
        engine.process(EVENTS)
    with app.open(path) as engine:  # evolve is needed once
        assert rows(engine) == [("a", 30, "new", 0.5), ("b", 60, "new", 0.5)]
        before = engine.table("sums").at(epoch=1).to_arrow()
        assert before.column_names == ["key", "total"]  # as it was
    assert StateDirectory(path).verify() == []


def ordered(*names, retain=None, more=()):
    app = ms.App("shop", order_by="ts")
    sums = app.table("sums", key="string", columns={"total": "int64"}, default={"total": 0}, retain=retain)
    for one in more:
        app.table(one, key="int64", columns={"n": "int64"}, default={"n": 3})

    def one(e):
        sums[e.key].total += 1

    def two(e):
        sums[e.key].total += 2

    for name in names:
        app.on()({"one": one, "two": two}[name])
    return app


@pytest.mark.parametrize("more", [[], ["extra"]])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["two", "one"]}, "the transactions have another order"),
        ({"retain": 20}, "table 'sums' retains 20, not 10"),
        ({"retain": None}, "table 'sums' retains what windows need, not 10"),
    ],
)
def test_new_tables_hide_no_other_change(tmp_path, change, message, more):
    given = {"names": ["one", "two"], "retain": 10, "more": more, **change}
    app = ordered(*given.pop("names"), **given)
    with ordered("one", "two", retain=10).open(tmp_path) as engine:
        engine.process(EVENTS)
    with pytest.raises(ms.StateError, match=message + ".*evolve='program'"):
        app.open(tmp_path, evolve="tables")
    app.open(tmp_path, evolve="program").close()


def test_a_changed_program(path):
    with build(factor=100, more=["extra"], bonus=True).open(path, evolve="program") as engine:
        engine.process(EVENTS)
        assert rows(engine) == [("a", 1020), ("b", 2040)]
        assert rows(engine, "extra") == [(1, 5)]
        engine.process(EVENTS)
    with build(factor=100, more=["extra"], bonus=True).open(path) as engine:
        assert rows(engine) == [("a", 2020), ("b", 4040)]
        assert engine.epoch == 4
    with pytest.raises(ms.StateError, match="another program"):
        build().open(path)


def test_a_damaged_snapshot_before_a_change_is_made_up_for_by_the_log(path):
    """The log before it is of the old program, and is executed with that."""
    app = build(factor=100, columns={"note": "string"})
    with app.open(path, ms.Config(retain_epochs=10), evolve="program") as engine:
        engine.process(EVENTS)
    snapshot = next(one for one in StateDirectory(path).records if one.kind == "snapshot")
    (path / snapshot.body.rows.name).write_bytes(b"")
    with app.open(path) as engine:
        assert rows(engine) == [("a", 1020, "new"), ("b", 2040, "new")]


def test_a_wrong_word(tmp_path):
    with pytest.raises(ms.ConfigError, match="evolve='columns': expected 'tables', 'program', or nothing"):
        build().open(tmp_path, evolve="columns")


def test_two_writers(path):
    first, second = build().open(path), build().open(path)
    first.process(EVENTS)
    with pytest.raises(ms.FencedError, match=f"{path} was taken over: writer .* has written log/.* engine stopped"):
        second.process(EVENTS)
    with pytest.raises(ms.ClosedError, match="the engine has stopped .* was taken over: .* Open the state again"):
        second.table("sums").to_arrow()
    second.close()
    first.process(EVENTS)  # and is not disturbed
    first.close()
    with build().open(path) as engine:
        assert rows(engine) == [("a", 40), ("b", 80)]


def test_two_that_create_it_at_once(tmp_path):
    import threading

    engines, barrier = [], threading.Barrier(4)

    def create():
        barrier.wait()
        engines.append(build().open(tmp_path))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = []
    for engine in engines:
        try:
            engine.process(EVENTS)
            outcomes.append("done")
        except ms.FencedError:
            outcomes.append("fenced")
        engine.close()
    assert sorted(outcomes) == ["done", "fenced", "fenced", "fenced"]
