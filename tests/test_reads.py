"""Reads of tables beside a running epoch: they never wait for it, and see what the last commit left, of all tables."""

import threading
import time

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.reference import open_reference
from morphspark.testing import assert_same, sorted_table

STOP = 13  # the value at which the function waits
SECONDS = 30  # for what should take milliseconds

reached, go_on = threading.Event(), threading.Event()


@ms.udf("int64", python=True)
def pass_by(value):
    if value == STOP and not go_on.is_set():
        reached.set()
        assert go_on.wait(SECONDS)
    return value


def build():
    """Strings that grow, rows that come and go, a table with windows; and a function in the middle that may wait."""
    app = ms.App("reads", order_by="ts")
    notes = app.table("notes", key="string", columns={"n": "int64", "text": "string"}, default={"n": 0, "text": ""})
    pairs = app.table("pairs", key={"a": "int64", "b": "string"}, columns={"price": "decimal(9, 2)", "on": "bool"})
    speeds = app.table("speeds", key="int64", columns={"speed": "float64"}, default={"speed": 0.0}, retain=100)

    @app.on(kind="add")
    def add(e):
        row = notes[e.name]
        row.n += e.value
        row.text = row.text + "+"
        speeds[e.value].speed = speeds[e.value].over(50).speed.sum() + 1.0
        row.n += pass_by(e.value)

    @app.on(kind="put")
    def put(e):
        pairs.insert((e.value, e.name), price=e.value, on=e.value > 3)

    @app.on(kind="drop")
    def drop(e):
        pairs.delete((e.value, e.name))
        notes.delete(e.name)

    return app


KINDS = ["add", "put", "add", "drop", "add", "put", "put"]


def events(epoch, rows=60, stop=False):
    numbers = range(epoch * rows, (epoch + 1) * rows)
    values = [n * 7 % 11 for n in numbers]
    kinds = [KINDS[n % len(KINDS)] for n in numbers]
    if stop:
        values[rows // 2], kinds[rows // 2] = STOP, "add"
    return pa.table(
        {
            "ts": pa.array(numbers, pa.int64()),
            "kind": kinds,
            "name": [f"name {n * 5 % 17} " + "long " * (n % 2) * 8 for n in numbers],
            "value": pa.array(values, pa.int64()),
        }
    )


APP = build()
STRATEGIES = ["serial", "ns-explore/c-schedule/l-abort", "s-explore-bfs/v-schedule/e-abort", "tstream", "auto"]


@pytest.fixture(autouse=True)
def stopped_function():
    reached.clear()
    go_on.clear()
    yield
    go_on.set()


def state(engine):
    return {spec.name: sorted_table(rows, spec) for spec, rows in zip(engine.program.tables, of(engine), strict=True)}


def of(engine):
    return list(engine.tables().values())


def same(found, wanted):
    for name in wanted:
        assert_same(found[name], wanted[name], name)


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    return thread


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("durable", [False, True])
def test_in_the_middle_of_an_epoch(tmp_path, strategy, durable):
    """The epoch stands still in a function of the user's: reads, also of the past, come back with what is committed."""
    config = ms.Config(strategy=strategy, threads=2)
    with APP.open(tmp_path if durable else None, config) as engine, open_reference(APP) as oracle:
        for epoch in range(2):
            engine.process(events(epoch))
            oracle.process(events(epoch))
        committed = state(oracle)
        epoch = in_thread(lambda: engine.process(events(2, stop=True)))
        assert reached.wait(SECONDS)
        same(state(engine), committed)
        assert_same(engine.table("notes").to_arrow().sort_by("key"), committed["notes"].sort_by("key"))
        if durable:
            assert len(engine.table("pairs").at(epoch=1).to_arrow()) == len(committed["pairs"])
        assert epoch.is_alive()
        go_on.set()
        epoch.join()
        oracle.process(events(2, stop=True))
        same(state(engine), state(oracle))


def test_an_engine_that_is_closed_beside_a_reader(counter):
    with counter.open() as engine:
        engine.process(pa.table({"ts": range(100_000), "key": range(100_000), "amount": range(100_000)}))
        seen = []

        def read():
            try:
                while True:
                    seen.append(len(engine.table("sums")))
            except ms.ClosedError:
                seen.append("closed")

        threads = [in_thread(read) for _ in range(3)]
        while len(seen) < 5:
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert seen.count("closed") == 3 and set(seen) == {100_000, "closed"}


@pytest.mark.parametrize("strategy", ["serial", "s-explore-bfs/t-schedule/e-abort", "auto"])
@pytest.mark.parametrize("submitted", [False, True])
def test_readers_beside_many_epochs(tmp_path, strategy, submitted):
    """Every event moves an amount from one table to the other: whoever reads both finds nothing missing."""
    rows, keys = 20_000, 100
    app = ms.App("moves", order_by="ts")
    left = app.table("left", key="int64", columns={"v": "int64"}, default={"v": 0})
    right = app.table("right", key="string", columns={"v": "int64", "last": "string"}, default={"v": 0, "last": ""})

    @app.on()
    def move(e):
        left[e.a].v -= e.amount
        row = right[e.b]
        row.v += e.amount
        row.last = e.b + "!"

    def batch(epoch):
        numbers = range(epoch * rows, (epoch + 1) * rows)
        return pa.table(
            {
                "ts": pa.array(numbers, pa.int64()),
                "a": pa.array([n % keys for n in numbers], pa.int64()),
                "b": [f"b{n * 7 % keys}" for n in numbers],
                "amount": pa.array([1] * rows, pa.int64()),
            }
        )

    totals, over = [], threading.Event()

    def read():
        while not over.is_set():
            found = engine.tables("left", "right")
            moved = sum(found["right"]["v"].to_pylist())
            assert moved == -sum(found["left"]["v"].to_pylist())
            totals.append(moved)

    config = ms.Config(strategy=strategy, threads=2, fsync=False)
    with app.open(tmp_path if submitted else None, config) as engine:
        errors = []
        reader = in_thread(lambda: _keep(read, errors))
        for epoch in range(12):
            engine.submit(batch(epoch)) if submitted else engine.process(batch(epoch))
        assert sum(engine.table(right).to_arrow()["v"].to_pylist()) == 12 * rows
        over.set()
        reader.join()
    assert not errors, errors
    assert totals == sorted(totals) and all(total % rows == 0 for total in totals)
    assert len(totals) > 3


def _keep(function, errors):
    try:
        function()
    except BaseException as error:
        errors.append(error)
