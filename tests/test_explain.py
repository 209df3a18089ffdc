"""engine.explain, the figures of a batch in the metrics, and what auto says of its choices."""

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.apps import streaming_ledger
from morphspark.bench.workloads.grep_lists import GrepLists
from morphspark.bench.workloads.grep_sum import GrepSum
from morphspark.bench.workloads.ledger import Ledger
from morphspark.strategy import FIXED, NAMES
from morphspark.testing import Schedule


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
    assert counts["pd"] == 2  # what the second writes needs y of the first, what the third writes z of the second
    assert counts["ld"] == 3  # two operations each
    assert counts["strata"] == [1, 1, 1]
    assert (counts["span"], counts["transaction_span"]) == (6, 6)


def test_a_row_named_twice_is_one_operation(chain):
    with chain.open() as engine:
        counts = engine.explain(pa.table({"i": [1], "a": ["x"], "b": ["x"]})).counts
    assert (counts["operations"], counts["aliases"]) == (1, 1)


def test_chains_are_rows_with_operations():
    """Whoever uses no row is in no chain, and a list's rows are chains of their own."""
    app = ms.App("chains", order_by="i", events={"i": "int64", "items": "list<int64>"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on(i=[1, 2])
    def spread(e):
        for item in ms.each(e.items):
            t[item].v += 1

    @app.on(i=3)
    def nothing(e):
        return {"r": e.i}

    with app.open() as engine:
        counts = engine.explain(pa.table({"i": [1, 2, 3, 4], "items": [[1, 2, 2], [2, 3], [4], [5]]})).counts
    assert (counts["operations"], counts["chains"], counts["longest_chain"]) == (4, 3, 2)


def test_work_and_span_bound_the_speedup(chain):
    with chain.open() as engine:
        serial = engine.explain(EVENTS)
        free = engine.explain(pa.table({"i": [1, 2], "a": ["p", "q"], "b": ["r", "s"]}))
    assert serial.speedup(8) == 1.0
    assert free.speedup(8) == free.speedup(2) == 2.0


def times(first: int, rows: int) -> pa.Array:
    return pa.array(range(first, first + rows), pa.timestamp("us", "UTC"))


def deposits(accounts: list[str], assets: list[str]) -> pa.Table:
    empty = {"to_account": [""], "to_asset": [""], "kind": ["deposit"]}
    rows = len(accounts)
    own = {"ts": times(0, rows), "account": accounts, "asset": assets, "amount": [1] * rows, "quantity": [1] * rows}
    return pa.table({**own, **{name: value * rows for name, value in empty.items()}})


def test_operations_run_where_whole_transactions_wait():
    """Four accounts, one asset: its four writes are a path, and the accounts' writes run beside it."""
    with streaming_ledger.build().open() as engine:
        found = engine.explain(deposits(["a", "b", "c", "d"], ["x"] * 4))
    counts = found.counts
    assert (counts["operations"], counts["td"], counts["pd"], counts["ld"]) == (8, 3, 0, 4)
    assert (counts["span"], counts["transaction_span"]) == (4, 8)
    assert (found.speedup(2), found.speedup(2, whole=True)) == (2.0, 1.0)
    assert "8 / 4 operations, as transactions are cut here: at most 2.0x" in str(found)
    assert "8 / 8 with whole transactions: at most 1.0x" in str(found)


def test_the_critical_path_is_named(chain):
    aside = pa.table({"i": [4, 5], "a": ["p", "q"], "b": ["q", "r"]})
    with chain.open() as engine:
        found = engine.explain(pa.concat_tables([EVENTS, aside]))
        alone = engine.explain(EVENTS.slice(0, 1))
    assert found.critical_path == [0, 1, 2]
    assert "critical path  3 transactions: 0 move → 1 move → 2 move" in str(found)
    assert "the longest has 3 operations (t[y])" in str(found)
    bold = [line for line in found.dot().splitlines() if "style=bold" in line]
    assert [line.split()[1] for line in bold] == ["cluster_0", "cluster_1", "cluster_2"]
    assert found._repr_html_().count('stroke-width="2"') == 6  # two operations each
    assert "critical path" not in str(alone)


def test_all_chains_of_a_circle_are_merged_chains():
    """Each waits for the next one, and the last for the first."""
    app = ms.App("circle", order_by="i", events={"i": "int64", "a": "int64", "b": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def add(e):
        t[e.a].v += 1
        t[e.b].v += t[e.a].v

    size = 7
    places = list(range(size))
    events = pa.table({"i": list(range(2 * size)), "a": places * 2, "b": [*places[1:], 0] * 2})
    with app.open() as engine:
        counts = engine.explain(events).counts
    assert (counts["chains"], counts["merged_chains"]) == (size, size)


def test_where_the_engine_cuts_batches_it_says_so(chain):
    with chain.open(config=ms.Config(strategy="lock", punctuation=2)) as engine:
        assert "batches        of 2: what follows is what all 3 would be as one" in str(engine.explain(EVENTS))


@pytest.mark.parametrize(("late", "explained"), [("admit", 4), ("divert", 2), ("fail", 4)])
def test_diverted_events_are_not_in_the_graph(late, explained):
    app = ms.App("late", order_by="ts", events={"ts": "int64"}, late=late)
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def add(e):
        t[1].v += e.ts

    with app.open() as engine:
        engine.process(pa.table({"ts": [5]}))
        assert engine.explain(pa.table({"ts": [1, 2, 6, 7]})).counts["transactions"] == explained


def test_a_large_batch_is_not_drawn():
    with streaming_ledger.build().open() as engine:
        found = engine.explain(streaming_ledger.generate(5_000, 50))
    assert "operations of 5,000 transactions: too many to draw" in found.dot()
    assert "<svg" not in found._repr_html_()


def test_conditions_are_parametric():
    """A transfer's writes need both of its conditions; those read the payer and the source."""
    first = deposits(["p", "q"], ["x", "y"])
    transfer = {"ts": times(2, 1), "account": ["p"], "asset": ["x"], "to_account": ["q"], "to_asset": ["y"]}
    more = pa.table({**transfer, "amount": [1], "quantity": [1], "kind": ["transfer"]}).select(first.column_names)
    with streaming_ledger.build().open() as engine:
        counts = engine.explain(pa.concat_tables([first, more])).counts
    assert (counts["td"], counts["ld"]) == (4, 1 + 1 + 3)
    # p needs x, x needs p, q and y need both: direct edges, whatever else follows from them
    assert counts["pd"] == 6


def test_lists_are_parametric_element_by_element():
    app = ms.App("lists", order_by="i", events={"i": "int64", "k": "int64", "items": "list<int64>"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})
    u = app.table("u", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def spread(e):
        for item in ms.each(e.items):
            u[item].v = t[item].v + t[e.k].v
            t[item].v += 1

    events = pa.table({"i": [1, 2], "k": [9, 1], "items": [[1, 2, 3], [1, 2]]})
    with app.open() as engine:
        counts = engine.explain(events).counts
    # The second: u[1], u[2] need t[1], t[2] of the first, each its own; t[e.k] is t[1], named twice.
    assert (counts["operations"], counts["aliases"]) == (7 + 4, 1)
    assert (counts["td"], counts["pd"]) == (4, 2)


def test_windows_over_lists_are_parametric():
    app = ms.App("windows", order_by="i", events={"i": "int64", "k": "int64", "v": "int64", "items": "list<int64>"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})
    u = app.table("u", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on(v=1)
    def put(e):
        t[e.k].v = e.v

    @app.on(v=2)
    def fold(e):
        u[e.k].v = ms.window([t[item] for item in ms.each(e.items)], 10).v.sum()

    events = pa.table({"i": [1, 2, 3], "k": [1, 2, 9], "v": [1, 1, 2], "items": [[], [], [1, 2, 3]]})
    with app.open() as engine:
        counts = engine.explain(events).counts
    assert (counts["td"], counts["pd"]) == (2, 2)  # u[9] needs t[1] and t[2], which others wrote


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
    assert dot.startswith("digraph") and 'label="w t[y]"' in dot
    graph, legend = dot.split("cluster_legend")
    for kind, count in (("TD", 3), ("PD", 2), ("LD", 3)):
        assert graph.count(f'label="{kind}"') == count and f"{kind}_from -> {kind}_to" in legend
    assert "  o1 -> o3 [" in graph  # PD: the second writes z from y, which the first wrote
    picture = explanation._repr_html_()
    assert picture.count("<rect") == 6 and picture.count("<line") == 8 + 3
    assert picture.count("PD: waits for") == 1 and "decision" in str(explanation)


def test_a_large_graph_is_counted_and_not_drawn():
    app = streaming_ledger.build()
    with app.open() as engine:
        explanation = engine.explain(streaming_ledger.generate(1_000, 100))
    assert explanation.counts["transactions"] == 1_000
    assert explanation.counts["accesses"] == []
    assert "<svg" not in explanation._repr_html_()


def test_computed_keys_are_foreseen():
    app = ms.App("shifted", order_by="i", events={"i": "int64", "k": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def shift(e):
        t[e.k + 1].v += 1

    events = pa.table({"i": range(1000), "k": [k % 500 for k in range(1000)]})
    with app.open(config=ms.Config(strategy="s-explore-bfs/t-schedule/e-abort", threads=2)) as engine:
        explained = engine.explain(events)
        assert engine.table("t").to_arrow().num_rows == 0
        engine.process(events)
        (ran,) = engine.metrics[-1]["batches"]
    found = explained.counts
    assert (found["operations"], found["td"], found["strata"]) == (1000, 500, [500, 500])
    assert (ran["operations"], ran["dependencies"], ran["strata"]) == (1000, 500, 2)
    assert explained.speedup(2) == 2 and explained.speedup(1000) == 500
    assert "keys computed  by 1,000 transactions, of the state as it is now" in str(explained)


def test_keys_that_are_read_from_state_are_foreseen_as_it_is_now():
    app = ms.App("pointers", order_by="i", events={"i": "int64", "k": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def follow(e):
        t[t[e.k].v].v += 1

    events = pa.table({"i": [1, 2, 3], "k": [2, 2, 3]})
    with app.open() as engine:
        engine.load("t", pa.table({"key": [2, 3], "v": [8, 9]}))
        explained = engine.explain(events)
        rows = [line.split('"')[1] for line in explained.dot().splitlines() if '[label="r ' in line or '"w ' in line]
        assert rows == ["r t[2]", "w t[8]", "r t[2]", "w t[8]", "r t[3]", "w t[9]"]
        assert explained.counts["strata"] == [2, 1] and "alone" not in explained.dot()


def test_where_explain_would_have_to_call_functions_transactions_stand_alone():
    app = ms.App("calls", order_by="i", events={"i": "int64", "k": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})
    called = []

    @ms.udf("int64", python=True)
    def half(k):
        called.append(k)
        return k // 2

    @app.on()
    def to_half(e):
        t[half(e.k)].v += 1

    nested = {"to_half": "ns-explore/f-schedule/e-abort"}
    with app.open(config=ms.Config(strategy=nested)) as engine:
        explained = engine.explain(pa.table({"i": [1, 2, 3], "k": [2, 2, 3]}))
    assert "keys computed  by 3 transactions: each stands here as if it ran alone" in str(explained)
    assert explained.counts["strata"] == [1, 1, 1] and explained.dot().count(", alone") == 3 and not called
    assert "to_half ns-explore/t-schedule/e-abort" in str(explained) and "are cut here" not in str(explained)


def windowed_app(pointers: bool) -> ms.App:
    app = ms.App("recent", order_by="i", events={"i": "int64", "k": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def count(e):
        recent = t[e.k].over(100).v.count()
        if pointers:
            t[t[e.k].v].v += 1
        else:
            t[e.k].v += 1
        return {"recent": recent}

    return app


def test_windows_are_explained():
    events = pa.table({"i": [1, 2, 3], "k": [2, 2, 3]})
    with windowed_app(pointers=False).open() as engine:
        explained = engine.explain(events)
        assert "windows        read by 3 transactions" in str(explained)
        assert (explained.counts["td"], explained.counts["span"], explained.decision) == (1, 2, "serial")
    with windowed_app(pointers=True).open() as engine:
        explained = engine.explain(events)
        assert explained.decision == "serial" and "can't run transactions like these" in str(explained)
        assert "keys computed  by 3" in str(explained) and "windows        read by 3" in str(explained)


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
    in_parts = name == "tstream" or "/f-" in name or "/c-" in name
    assert all((sum(one["transitions"].values()) > 0) == in_parts for one in record["batches"])
    if name != "serial":
        assert record["construct_ms"] > 0 and record["plan_operations"] > 2_000
        assert record["graph_bytes"] > 0 and record["version_bytes"] > 0


@pytest.mark.parametrize("name", ["lock", "pat", "ns-explore/t-schedule/e-abort"])
def test_what_units_take_is_told_where_it_is_measured(name):
    """Else what is left after waiting is useful, and nobody knows what finding units took."""
    finding = "lock_ms" if name in ("lock", "pat") else "explore_ms"
    for observe in (False, True):
        with streaming_ledger.build().open(config=ms.Config(strategy=name, threads=2, observe=observe)) as engine:
            engine.process(streaming_ledger.generate(500, 50))
            record = engine.metrics[-1]
        (batch,) = record["batches"]
        assert (batch["parts"][finding] is not None) == (record[finding] is not None) == observe
        others = [batch["parts"][part] for part in batch["parts"] if part != finding]
        measured = batch["measured_ms"] * batch["threads"]
        assert sum(others) + (batch["parts"][finding] or 0) == pytest.approx(measured)


@pytest.mark.parametrize("name", ["serial", "ns-explore/t-schedule/e-abort", "tstream"])
def test_many_batches_are_told_of_together(name):
    """Those beyond a thousand: what is told of a batch takes some kilobytes."""
    with streaming_ledger.build().open(config=ms.Config(strategy=name, punctuation=1)) as engine:
        engine.process(streaming_ledger.generate(5_000, 500, abort_ratio=0.1))
        record = engine.metrics[-1]
    batches = record["batches"]
    assert len(batches) == 1_000 and sum(one["batches"] for one in batches) == 5_000
    assert sum(one["events"] for one in batches) == 5_000 and batches[-1]["events"] == 4_001
    assert sum(one["aborted"] for one in batches) == record["aborted"] > 0


def test_many_batches_that_ran_in_many_ways_are_told_of_together_too():
    schedule = Schedule("auto", threads=2, punctuation=1, seed=7)  # which makes `auto` go from one to another
    with schedule.open(streaming_ledger.build(), ms.Config()) as engine:
        engine.process(streaming_ledger.generate(5_000, 500, abort_ratio=0.1))
        batches = engine.metrics[-1]["batches"]
    ways = [(one["strategy"], one["why"]) for one in batches]
    assert len(set(ways[:999])) > 5 and sum(one["batches"] for one in batches) == 5_000
    assert len(ways[999:]) == len(set(ways[999:])) and sum(one["events"] for one in batches) == 5_000


def test_rows_that_are_named_twice_are_counted_once():
    app = ms.App("twice", events={"a": "int64", "b": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def add(e):
        t[e.a].v += 1
        t[e.b].v += 1

    events = pa.table({"a": [1, 2, 3], "b": [1, 5, None]})
    with app.open(config=ms.Config(strategy="ns-explore/f-schedule/e-abort")) as engine:
        explained = engine.explain(events).counts["operations"]
        engine.process(events)
        (batch,) = engine.metrics[-1]["batches"]
    assert batch["operations"] == explained == 1 + 2 + 1


def test_keys_that_cannot_be_printed_are_written_out(chain):
    with chain.open() as engine:
        found = engine.explain(pa.table({"i": [1], "a": ["\x00<z>\n"], "b": ["b"]}))
    assert r"t[\x00&lt;z&gt;\n]" in found._repr_html_() and r"t[\\x00<z>\\n]" in found.dot()


def test_batches_as_a_frame():
    with streaming_ledger.build().open(config=ms.Config(strategy="lock", punctuation=200)) as engine:
        for _ in range(2):
            engine.process(streaming_ledger.generate(500, 50))
        frame = engine.metrics.to_pandas(batches=True)
        assert len(engine.metrics.to_pandas()) == 2
    assert frame["epoch"].tolist() == [0, 0, 0, 1, 1, 1] and frame["events"].tolist() == [200, 200, 100] * 2
    assert (frame["clock.plan_ms"] > 0).all() and (frame["parts.useful_ms"] > 0).all()


LOOKED_AT = {
    "ledger": Ledger(events=200, keys=60),
    "deposits with one asset": Ledger(events=200, keys=60, transfers=0.0, hot=1.0),
    "sums in circles": GrepSum(events=200, keys=40, length=2, reads=3),
    "sums without circles": GrepSum(events=200, keys=40, length=1, reads=3, cyclic=False),
    "lists": GrepLists(events=200, keys=300, length=4),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_look_at_a_whole_batch_finds_what_its_graph_has(name):
    workload = LOOKED_AT[name].workload()
    with workload.open(ms.Config()) as engine:
        counts = engine.explain(workload.batch(0)).counts
    inputs = counts["inputs"]
    seen = inputs["seen"]
    assert inputs["sample"] == counts["transactions"] == 200
    assert [seen[kind] for kind in ("td", "pd", "ld")] == [counts[kind] for kind in ("td", "pd", "ld")]
    operations = counts["operations"]
    assert inputs["accesses_each"] * 200 == pytest.approx(operations)
    assert inputs["operation_span"] * operations == pytest.approx(counts["span"])
    assert inputs["transaction_span"] * operations == pytest.approx(counts["transaction_span"])
    assert (seen["cyclic"] > 0) == (counts["merged_chains"] > 0)
    assert sum(seen["degrees"]) == 200


@pytest.mark.parametrize("name", ["ns-explore/f-schedule/l-abort", "s-explore-bfs/c-schedule/e-abort", "tstream"])
@pytest.mark.parametrize("fires", [False, True])
def test_what_is_explained_is_what_runs(name, fires):
    """Windows, of events or of firings, need whole transactions, whatever was configured."""
    app = ms.App("windows", order_by="ts", events={"ts": "int64", "k": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0}, retain=10)

    @app.on()
    def put(e):
        t[e.k].v += 1
        return {} if fires else {"sum": t[e.k].over(10).v.sum()}

    if fires:

        @app.every(2, window=4, each=t)
        def fired(w):
            return {"sum": t[w.key].over(4).v.sum()}

    events = pa.table({"ts": list(range(12)), "k": [1, 2, 3] * 4})
    with app.open(config=ms.Config(strategy=name)) as engine:
        explained = engine.explain(events)
        engine.process(events)
        (batch,) = engine.metrics[-1]["batches"]
    assert (explained.decision, explained.counts["why"]) == (batch["strategy"], batch["why"])
    assert "t-schedule" in batch["strategy"] and batch["why"] in str(explained)


def test_firings_that_were_none_are_no_events():
    """A row that nobody wrote after all is planned to fire, and does not."""
    app = ms.App("none", order_by="ts", events={"ts": "int64", "k": "int64"})
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def put(e):
        t[e.k].v += 1
        ms.require(e.k > 1, "small")

    @app.every(2, window=4, each=t)
    def fired(w):
        return {"end": w.end}

    for name in ("serial", "s-explore-bfs/t-schedule/e-abort"):
        with app.open(config=ms.Config(strategy=name)) as engine:
            result = engine.process(pa.table({"ts": [0, 1, 3, 4], "k": [1, 2, 1, 1]}))
            record = engine.metrics[-1]
        assert result.num_rows == 4 + 2  # 2 at boundaries 2 and 4
        assert sum(one["events"] for one in record["batches"]) == 6
        assert sum(one["not_due"] for one in record["batches"]) == 2
        assert sum(one["aborted"] for one in record["batches"]) == record["aborted"] == 3


def test_auto_says_why():
    with streaming_ledger.build().open(config=ms.Config(threads=2)) as engine:
        engine.process(streaming_ledger.generate(20_000, 1_000))
        batches = engine.metrics[-1]["batches"]
        assert "an access took" in str(engine.explain(streaming_ledger.generate(20_000, 1_000)))
    first = batches[0]
    assert first["why"] == "to learn what a transaction costs" and first["strategy"] == "serial"
    planned = next(one for one in batches if one["why"] == "to learn what planning costs on this machine")
    inputs = planned["inputs"]
    assert 1 <= planned["chunk"] <= 64
    assert planned["strategy"] != "serial" and planned["predicted_ms"] > 0 and planned["measured_ms"] > 0
    assert inputs["accesses_each"] >= 1 and inputs["serial_ns"] > 0 and inputs["sample"] > 100
    seen = inputs["seen"]
    assert seen["td"] > 0 and seen["pd"] > 0 and seen["ld"] > inputs["sample"]
    assert 0 < seen["distinct_rows"] <= 1 and 0 < seen["same_row"] <= 1 and inputs["look_ms"] > 0
    assert 0 < inputs["operation_span"] <= inputs["transaction_span"] <= 1
    assert "auto" in NAMES
