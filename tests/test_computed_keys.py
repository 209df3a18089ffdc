"""Keys that are computed or read from state: foreseen, doubted, repaired or left to roam, all strategies agree."""

import random

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.reference import open_reference
from morphspark.strategy import NAMES

NESTED = {"hit": "ns-explore/f-schedule/e-abort", "*": "s-explore-bfs/v-schedule/e-abort"}
TABLES = ("pointers", "records", "texts")


def build():
    app = ms.App("jumps", order_by="ts")
    pointers = app.table("pointers", key="int64", columns={"target": "int64"}, default={"target": 0})
    records = app.table("records", key="int64", columns={"v": "int64"}, default={"v": 0})
    texts = app.table("texts", key={"a": "int64", "b": "string"}, columns={"v": "int64", "s": "string"})

    @app.on(kind=0)
    def hit(e):
        target = pointers[e.k].target
        records[target].v += 1
        return {"seen": records[target].v}

    @app.on(kind=1)
    def point(e):
        pointers[e.k].target = e.b
        records[e.b].v += 5
        ms.require(records[e.k].v % 3 != 1, "unlucky")

    @app.on(kind=2)
    def deep(e):
        target = pointers[pointers[pointers[e.k].target].target].target
        row = texts[target, "x" + e.s]
        with ms.when(~row.exists()):
            texts.insert((target, "x" + e.s), v=e.b, s=e.s)
        row.v += records[target].v
        row.s = row.s + "u"
        with ms.when(row.v % 5 == 0):
            texts.delete((target, "x" + e.s))
        return {"seen": records[e.k + e.b].v}

    @app.on(kind=3)
    def loop(e):
        for one in ms.each(e.items):
            records[pointers[one].target].v += 2
            pointers[records[one].v % 5].target = one

    @app.on(kind=4)
    def of_event(e):
        records[e.k * 2 + e.b].v -= 1
        return {"seen": records[e.k // e.b].v}

    @app.on(kind=5)
    def own_pointer(e):
        pointers[e.k].target = e.b
        records[pointers[e.k].target].v += 1

    return app


def events(seed):
    chance = random.Random(seed)
    count, keys = chance.choice([(20, 5), (100, 50), (300, 5), (300, 500)])
    kinds = chance.choice([range(6), [0, 1], [0, 4, 4, 4, 1], [2, 4, 5]])

    def key():
        return chance.randrange(keys)

    def column(make):
        return [make() for _ in range(count)]

    items = column(lambda: None if chance.random() < 0.1 else [chance.choice([None, key()]) for _ in range(key() % 4)])
    return pa.table(
        {
            "ts": range(count),
            "kind": column(lambda: chance.choice(kinds)),
            "k": column(lambda: None if chance.random() < 0.03 else key()),
            "b": column(key),
            "s": column(lambda: chance.choice("xy")),
            "items": pa.array(items, pa.list_(pa.int64())),
        }
    )


def outcome(engine, table):
    """Three epochs of the same events, so that what is learned from one matters in the next."""
    results = []
    for epoch in range(3):
        stamps = pa.array(range(epoch * len(table), (epoch + 1) * len(table)))
        results.append(engine.process(table.set_column(0, "ts", stamps)))
    rows = {name: sorted(map(str, engine.table(name).to_arrow().to_pylist())) for name in TABLES}
    return results, rows


@pytest.mark.parametrize("seed", range(4))
def test_all_strategies_name_the_same_rows(seed):
    app, table = build(), events(seed)
    chance = random.Random(seed)
    with open_reference(app) as engine:
        expected = outcome(engine, table)
    for strategy in (*NAMES, NESTED):
        config = ms.Config(strategy=strategy, threads=chance.randint(1, 3), punctuation=chance.choice([7, 64, 1000]))
        with app.open(config=config) as engine:
            assert outcome(engine, table) == expected, config


def redone(app, table, strategy="ns-explore/t-schedule/e-abort"):
    with app.open(config=ms.Config(strategy=strategy, threads=2, punctuation=1000)) as engine:
        engine.process(table)
        return sum(batch["redone"] for batch in engine.metrics[-1]["batches"])


def test_who_is_foreseen_does_not_run_again_and_who_was_misled_does():
    app = build()
    one = {"s": ["x"] * 3, "items": pa.array([[]] * 3, pa.list_(pa.int64()))}
    right = pa.table({"ts": [1, 2, 3], "kind": [0, 4, 0], "k": [1, 1, 2], "b": [1, 1, 1], **one})
    assert redone(app, right) == 0
    wrong = pa.table({"ts": [1, 2, 3], "kind": [1, 0, 0], "k": [1, 1, 2], "b": [7, 1, 1], **one})
    assert redone(app, wrong) == 1


def test_candidates_are_known_from_the_event():
    app = ms.App("among", order_by="ts")
    t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})
    pairs = app.table("pairs", key={"a": "int64", "b": "int64"}, columns={"v": "int64"}, default={"v": 0})
    mistakes = {
        "this one is read from a table": lambda e: t[ms.key(e.k, among=[t[e.k].v])].v,
        "several parts": lambda e: pairs[ms.key((e.k, e.k), among=e.items)].v,
        "2 part": lambda e: pairs[ms.key((e.k, e.k), among=[e.k])].v,
        "takes a list column of the event": lambda e: t[ms.key(e.k, among=3)].v,
        "put it between a table's brackets": lambda e: t[1].v + ms.key(e.k, among=[e.k]),
        "inside ms.key": lambda e: t[ms.key(ms.key(e.k, among=[1]), among=[1])].v,
    }
    for words, mistake in mistakes.items():

        def wrong(e, mistake=mistake):
            return {"x": mistake(e)}

        with pytest.raises(ms.TraceError, match=words):
            app.on()(wrong)


@pytest.mark.parametrize("strategy", ["ns-explore/t-schedule/e-abort", "lock", "auto"])
def test_long_lists_of_computed_keys(strategy):
    """Rows named again in another order, new rows, and some that were not foreseen: more than are gone through."""
    app = ms.App("lists", order_by="ts")
    pointers = app.table("pointers", key="int64", columns={"target": "int64"}, default={"target": 0})
    records = app.table("records", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on()
    def many(e):
        for one in ms.each(e.items):
            records[pointers[one].target * 3 + one].v += 1
            records[one * 2].v += records[one + 1].v
            pointers[records[one].v % 50].target = one

    chance = random.Random(8)
    items = [[chance.randrange(200) for _ in range(chance.choice([3, 40, 300]))] for _ in range(40)]
    table = pa.table({"ts": range(40), "items": pa.array(items, pa.list_(pa.int64()))})
    with open_reference(app) as engine:
        expected = engine.process(table), state(engine)
    for punctuation in (5, 40):
        with app.open(config=ms.Config(strategy=strategy, threads=2, punctuation=punctuation)) as engine:
            assert (engine.process(table), state(engine)) == expected


def state(engine):
    return [sorted(map(str, engine.table(name).to_arrow().to_pylist())) for name in ("pointers", "records")]
