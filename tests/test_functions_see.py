"""Functions of the user's meet no value that events one by one would not show them: one such may never end, or kill."""

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.strategy import FIXED, NAMES

NESTED = {"*": "ns-explore/f-schedule/l-abort", "look": "s-explore-bfs/t-schedule/e-abort"}
STRATEGIES = [*NAMES, NESTED]
EVENTS = 240
seen: set[int] = set()


@ms.udf("int64", python=True)
def note(value):
    seen.add(value)
    return value


def levels():
    """Levels are 27 and more; who takes too much aborts, but another row tells it so."""
    app = ms.App("levels", order_by="ts")
    a = app.table("a", key="int64", columns={"v": "int64"}, default={"v": 27})
    b = app.table("b", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on(kind="take")
    def take(e):
        a[e.k].v -= 1000
        b[e.other].v += 1
        ms.require(b[e.other].v < 0, "never")

    @app.on(kind="give")
    def give(e):
        a[e.k].v += e.ts

    @app.on(kind="look")
    def look(e):
        level = a[e.k].v
        b[e.other].v = ms.where(level % 2 == 0, note(level), 0)
        with ms.when(level % 3 == 0):
            b[e.other].v += note(-level)

    return app, ("take", "give", "look")


def pointers():
    """An earlier event has set a pointer before anybody follows it; some transactions change their own."""
    app = ms.App("pointers", order_by="ts")
    p = app.table("p", key="int64", columns={"v": "int64"}, default={"v": -1})
    a = app.table("a", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on(kind="set")
    def put(e):
        p[e.ts // 3].v = e.k

    @app.on(kind="follow")
    def follow(e):
        a[note(p[e.ts // 3].v)].v += 1

    @app.on(kind="turn")
    def turn(e):
        p[e.ts // 3].v += 10
        a[p[e.ts // 3].v].v = note(a[e.k].v)

    return app, ("set", "follow", "turn")


def run(make, strategy, epochs=3):
    """What functions saw, and the state."""
    app, kinds = make()
    seen.clear()
    with app.open(config=ms.Config(strategy=strategy, threads=3)) as engine:
        for epoch in range(epochs):
            numbers = range(epoch * EVENTS, (epoch + 1) * EVENTS)
            kind, k = [kinds[i % 3] for i in numbers], [i * 7 % 5 for i in numbers]
            other = [1000 + i for i in numbers]
            engine.process(pa.table({"ts": list(numbers), "kind": kind, "k": k, "other": other}))
        return set(seen), {name: table.to_pylist() for name, table in engine.tables().items()}


@pytest.mark.parametrize("make", [levels, pointers])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_functions_see_what_one_by_one_shows_them(make, strategy):
    if strategy is NESTED and make is pointers:
        strategy = dict.fromkeys(("put", "follow", "turn"), next(name for name in FIXED if "/c-schedule/l-" in name))
    assert run(make, strategy) == run(make, "serial")
