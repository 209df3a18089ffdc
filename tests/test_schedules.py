"""What went wrong once with a schedule, and must not again."""

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.strategy import FIXED
from morphspark.testing import Schedule, both_engines


@pytest.mark.parametrize("strategy", [name for name in FIXED if "/f-" in name or "/c-" in name])
def test_a_failed_operation_leaves_nothing_to_the_rest(strategy):
    """Its register had a value of another transaction, a number where a string was read: a crash."""
    app = ms.App("x", order_by="ts")
    without = app.table("without", key="int64", columns={"text": "string"})
    texts = app.table("texts", key="int64", columns={"text": "string"}, default={"text": "a text of some twenty bytes"})
    numbers = app.table("numbers", key="int64", columns={"v": "int64"}, default={"v": 7})
    others = app.table("others", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on(kind="c")
    def copy(e):
        x = texts[e.k].text
        texts[e.k2].text = x

    @app.on(kind="a")
    def number(e):
        x = numbers[e.k].v
        others[e.k2].v = x

    @app.on(kind="b")
    def missing(e):
        x = without[e.k].text  # aborts
        texts[e.k2].text = x

    count = 300
    events = pa.table(
        {
            "ts": list(range(count)),
            "kind": ["cab"[i % 3] for i in range(count)],
            "k": list(range(count)),
            "k2": [count + i for i in range(count)],
        }
    )
    with both_engines(app, schedules=[Schedule(strategy, threads) for threads in (1, 2)]) as engines:
        assert engines.process(events)["_status"].to_pylist().count("aborted") == count / 3


@pytest.mark.parametrize("steps", [1_000, 2_500])
def test_transactions_with_more_registers_than_lanes_have_room_for(steps):
    """They run one by one, and so do the others of their program."""
    app = ms.App("long", order_by="ts")
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 1})

    @app.on(kind="long")
    def long(e):
        value = t[e.k].v
        for number in range(steps):
            value = value - e.k * (number % 3 - 1)
        t[e.k].v = value

    @app.on(kind="short")
    def short(e):
        t[e.k].v += t[e.k2].v

    kinds = ["long", "short", "short"] * 100
    events = pa.table({"ts": range(300), "kind": kinds, "k": [i % 40 for i in range(300)], "k2": [7] * 300})
    with both_engines(app, schedules=[Schedule("s-explore-bfs/v-schedule/e-abort", 2)]) as engines:
        assert engines.process(events)["_status"].to_pylist() == ["committed"] * 300
    with app.open() as engine:
        assert engine.explain(events).counts["inputs"]["lanes"] == (1 if steps == 1_000 else 0)
