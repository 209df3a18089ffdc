"""engine.explain, the figures of a batch in the metrics, and what auto says of its choices."""

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.strategy import FIXED, NAMES


@pytest.fixture
def chain():
    """Three transactions: the second waits for the first, the third for both."""
    app = ms.App("chain", order_by="i", events={"i": "int64", "a": "string", "b": "string"})
    t = app.table("t", key="string", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def move(e):
        t[e.b].v = t[e.a].v + 1

    return app


EVENTS = pa.table({"i": [1, 2, 3], "a": ["x", "y", "z"], "b": ["y", "z", "y"]})


def test_counts_of_a_small_graph(chain):
    with chain.open() as engine:
        counts = engine.explain(EVENTS).counts
    assert counts["transactions"] == 3
    assert (counts["reads"], counts["writes"], counts["operations"]) == (3, 3, 6)
    assert counts["td"] == 3  # y by the second, z and y by the third
    assert counts["strata"] == [1, 1, 1]
    assert counts["span"] == 6
    assert counts["ld"] == counts["pd"] == 3  # each transaction is a read that a write waits for


def test_a_row_named_twice_is_one_operation(chain):
    with chain.open() as engine:
        counts = engine.explain(pa.table({"i": [1], "a": ["x"], "b": ["x"]})).counts
    assert (counts["operations"], counts["aliases"]) == (1, 1)


def test_work_and_span_bound_the_speedup(chain):
    with chain.open() as engine:
        serial = engine.explain(EVENTS)
        free = engine.explain(pa.table({"i": [1, 2], "a": ["p", "q"], "b": ["r", "s"]}))
    assert serial.speedup(8) == 1.0
    assert free.speedup(8) == free.speedup(2) == 2.0


def test_explaining_changes_nothing(chain):
    with chain.open() as engine:
        engine.process(EVENTS)
        before = engine.table("t").to_arrow().sort_by("key")
        engine.explain(EVENTS.set_column(1, "a", pa.array(["new", "keys", "here"])))
        assert engine.epoch == 1
        assert engine.table("t").to_arrow().sort_by("key").equals(before)
        assert len(engine.metrics) == 1


def test_pictures(chain):
    with chain.open() as engine:
        explanation = engine.explain(EVENTS)
    dot = explanation.dot()
    assert dot.startswith("digraph") and dot.count("->") == 3 and 'label="w t[y]"' in dot
    picture = explanation._repr_html_()
    assert picture.count("<rect") == 6 and picture.count("<line") == 3
    assert "decision" in str(explanation)


def test_a_large_graph_is_counted_and_not_drawn():
    app = streaming_ledger.build()
    with app.open() as engine:
        explanation = engine.explain(streaming_ledger.generate(1_000, 100))
    assert explanation.counts["transactions"] == 1_000
    assert explanation.counts["accesses"] == []
    assert "<svg" not in explanation._repr_html_()


def test_who_computes_keys_runs_alone():
    app = ms.App("pointers", order_by="i", events={"i": "int64", "k": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def follow(e):
        t[t[e.k].v].v += 1

    events = pa.table({"i": [1, 2, 3], "k": [2, 2, 3]})
    with app.open(config=ms.Config(strategy="ns-explore/f-schedule/e-abort")) as engine:
        explained = engine.explain(events)
        assert "keys computed  by 3 transactions, each of which runs alone" in str(explained)
        assert explained.counts["strata"] == [1, 1, 1]
        engine.process(events)
        assert engine.metrics[-1]["strategy"] == "ns-explore/f-schedule/e-abort"


@pytest.mark.parametrize("name", FIXED)
def test_every_strategy_reports_its_batches(name):
    events = streaming_ledger.generate(1_000, 50, abort_ratio=0.2)
    config = ms.Config(strategy=name, threads=2, punctuation=300, observe=True)
    with streaming_ledger.build().open(config=config) as engine:
        engine.process(events)
        record = engine.metrics[-1]
    assert record["strategy"] == name or FIXED[record["strategy"]] == FIXED[name]
    assert [one["events"] for one in record["batches"]] == [300, 300, 300, 100]
    assert {one["why"] for one in record["batches"]} == {"configured"}
    assert record["useful_ms"] > 0
    parts = [record[f"{part}_ms"] for part in ("useful", "sync", "lock", "construct", "explore", "abort")]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(sum(one["measured_ms"] * one["threads"] for one in record["batches"]))
    assert record["aborted"] > 0 and (record["abort_ms"] > 0) == any(one["redone"] for one in record["batches"])
    if name != "serial":
        assert record["construct_ms"] > 0 and record["plan_operations"] > 2_000
        assert record["graph_bytes"] > 0 and record["version_bytes"] > 0


def test_auto_says_why():
    with streaming_ledger.build().open(config=ms.Config(threads=2)) as engine:
        engine.process(streaming_ledger.generate(20_000, 1_000))
        first, _, second = engine.metrics[-1]["batches"][:3]
    assert first["why"] == "to learn what a transaction costs" and first["strategy"] == "serial"
    assert second["why"] == "to learn what planning costs on this machine" and second["strategy"] != "serial"
    assert second["inputs"]["accesses"] >= 1 and second["inputs"]["serial_ns"] > 0
    assert 0 < second["inputs"]["distinct_rows"] <= 1 and 0 < second["inputs"]["same_row"] <= 1
    assert "auto" in NAMES
