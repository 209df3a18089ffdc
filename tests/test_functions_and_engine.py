"""Functions of the user's that turn to the engine that calls them, on whichever thread they run: nothing hangs."""

import threading

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.reference import open_reference
from morphspark.strategy import NAMES

SECONDS = 30  # for what should take milliseconds


class Holder:
    """What a function finds its engine by."""

    engine = None


USES = {
    "table": lambda engine: engine.table("rows").to_arrow(),
    "tables": lambda engine: engine.tables(),
    "process": lambda engine: engine.process(pa.table({"ts": [99], "k": [1], "b": [1]})),
    "load": lambda engine: engine.load("rows", pa.table({"key": [5], "v": [5]})),
    "state_size": lambda engine: engine.state_size(),
}
holder = Holder()


@ms.udf("int64", python=True)
def user(value):
    USES[holder.use](holder.engine)
    return value


@ms.udf("int64", vector=True)
def vector_user(value):
    USES[holder.use](holder.engine)
    return value


@ms.udf("int64", python=True)
def reading_beside(value):
    """Waits for a thread that reads: how many rows are committed."""
    found = []
    thread = threading.Thread(target=lambda: found.append(len(holder.engine.table("rows"))), daemon=True)
    thread.start()
    thread.join(SECONDS)
    return found[0]


def build(function):
    """A key that the function computes, and one that the transaction has just written: foreseen, repaired, roaming."""
    app = ms.App("uses", order_by="ts")
    rows = app.table("rows", key="int64", columns={"v": "int64"}, default={"v": 0})
    seen = app.table("seen", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def own(e):
        rows[e.k].v = e.b
        found = function(e.b)
        rows[rows[e.k].v + 1_000].v += found
        seen[found].v += 1
        return {"found": found}

    return app


def events(epoch, count=48):
    numbers = range(epoch * count, (epoch + 1) * count)
    return pa.table({"ts": numbers, "k": [n % 7 for n in numbers], "b": [n * 5 % 11 for n in numbers]})


@pytest.mark.parametrize("function", [user, vector_user])
@pytest.mark.parametrize("use", USES)
def test_a_function_that_uses_its_engine_aborts(function, use):
    app, holder.use = build(function), use
    with open_reference(app) as holder.engine:
        expected = holder.engine.process(events(0))
    reason = expected["_reason"].to_pylist()[0]
    assert reason.startswith(f"udf: {function.spec.name}: EpochError: a function can't use the engine that calls it")
    assert expected["_status"].unique().to_pylist() == ["aborted"]
    for strategy in ("serial", "ns-explore/t-schedule/e-abort", "s-explore-dfs/f-schedule/l-abort", "lock", "auto"):
        with app.open(config=ms.Config(strategy=strategy, threads=3, punctuation=16)) as holder.engine:
            assert holder.engine.process(events(0)) == expected, strategy


@pytest.mark.parametrize("strategy", NAMES)
def test_a_function_may_wait_for_a_reader(strategy):
    """Readers are let in while it runs: also where it runs ahead, is repaired, or roams."""
    app = build(reading_beside)
    with app.open(config=ms.Config(strategy=strategy, threads=2, punctuation=12)) as holder.engine:
        for epoch in range(3):
            committed = len(holder.engine.table("rows"))
            found = holder.engine.process(events(epoch))["found"].to_pylist()
            assert set(found) == {committed}, epoch


def test_close_inside_of_a_function_waits_for_the_epochs_end():
    app = ms.App("closing", order_by="ts")
    rows = app.table("rows", key="int64", columns={"v": "int64"}, default={"v": 0})

    @ms.udf("int64", python=True)
    def closing(value):
        holder.engine.close()
        return value

    @app.on()
    def write(e):
        rows[e.k].v = closing(e.k)

    holder.engine = app.open(config=ms.Config(strategy="ns-explore/t-schedule/e-abort", threads=3))
    result = holder.engine.process(pa.table({"ts": range(50), "k": range(50)}))
    assert result["_status"].unique().to_pylist() == ["committed"]
    with pytest.raises(ms.ClosedError):
        holder.engine.process(pa.table({"ts": [60], "k": [1]}))
