"""Windows over so many versions that engines keep aggregates: all say what the oracle says, which computes them anew.

Rows are few and written often; they are deleted and come again, transactions abort, epochs fail. Who reads are
onlookers, which write nothing; transactions that write, too; and firings. Values are alike, or as different as floats
can be.
"""

import random

import numpy as np
import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.testing import Schedule, both_engines

TEXT_MAX = 40
SCHEDULES = [
    Schedule("serial", 1),
    Schedule("ns-explore/t-schedule/e-abort", 2),
    Schedule("s-explore-bfs/t-schedule/e-abort", 3, 90),
    Schedule("s-explore-dfs/t-schedule/l-abort", 2),
    Schedule("s-explore-bfs/v-schedule/e-abort", 2),
    Schedule("ns-explore/t-schedule/e-abort", 3, "auto", 7),
    Schedule("tstream", 2),
    Schedule("mvlk", 2),
    Schedule("auto", 2),
]
WILD = [0.1, 1e308, -1e308, 1e-300, 5e-324, float("inf"), float("-inf"), float("nan")]


def long_app():
    app = ms.App("long", order_by="ts")
    t = app.table(
        "t", key="int64", columns={"f": "float64", "n": "int64", "x": "string"}, default={"f": 0.0, "n": 0, "x": ""}
    )

    @app.on(do="put")
    def put(e):
        ms.require(e.n != 3, "three")
        t[e.k].f = e.f
        t[e.k].n += e.n
        t[e.k].x = e.x

    @app.on(do="drop")
    def drop(e):
        t.delete(e.k)

    @app.on(do="shout")
    def shout(e):
        return {"text": e.x + e.x, "sum": t[e.k].over(700).f.sum()}

    @app.on(do="look")
    def look(e):
        rows = [t[k] for k in ms.each(e.ks)]
        return {
            "sum": ms.window(rows, 700).f.sum(),
            "mean": ms.window(rows, 90).n.mean(),
            "total": ms.window(rows, 250).n.sum(),
            "last": ms.window(rows, rows=80).n.sum(),
            "most": ms.window(rows, 700).f.max(),
            "kinds": ms.window(rows, 700).n.nunique(),
        }

    @app.on(do="peek")
    def peek(e):
        ms.require(t[e.k].exists(), "nothing there")
        return {"sum": t[e.k].over(700).f.sum(), "last": t[e.k].over(rows=60).n.sum(), "now": t[e.k].n}

    @app.on(do="fold")
    def fold(e):
        t[e.k].n = t[e.k].over(250).n.sum() % 100
        return {"sum": t[e.k].over(700).f.sum()}

    @app.every(50, window=300, each=t)
    def watch(w):
        return {"of": w.key, "seen": t[w.key].over(300).f.sum()}

    return app


def epoch(chance, now, count, keys, kinds, wild=0.0):
    rows = {name: [] for name in ("ts", "do", "k", "f", "n", "x", "ks")}
    for _ in range(count):
        now += chance.choice([0, 0, 1, 1, 2])
        rows["ts"].append(now)
        rows["do"].append(chance.choice(kinds))
        rows["k"].append(chance.randrange(keys))
        rows["f"].append(chance.choice(WILD) if chance.random() < wild else chance.uniform(-5, 1000))
        rows["n"].append(chance.randrange(40))
        rows["x"].append("" if chance.random() < 0.9 else "abc")
        rows["ks"].append([chance.randrange(keys) for _ in range(chance.choice([1, 3, keys]))])
    kinds = {"ts": pa.int64(), "k": pa.int64(), "f": pa.float64(), "n": pa.int64(), "ks": pa.list_(pa.int64())}
    return pa.table({name: pa.array(values, kinds.get(name, pa.string())) for name, values in rows.items()}), now


@pytest.mark.parametrize("seed", range(24))
def test_engines_agree(seed):
    chance = random.Random(seed)
    kinds = ["put"] * 20 + ["look", "look", "peek", "peek"]
    kinds += ["fold"] * chance.choice([0, 1]) + ["drop"] * chance.choice([0, 0, 1])
    keys, now = chance.choice([2, 6, 6, 30]), 0
    with both_engines(long_app(), ms.Config(max_string_bytes=TEXT_MAX), SCHEDULES) as engines:
        for number in range(6):
            wild = chance.choice([0, 0, 0.02])
            if number in (2, 4):  # an onlooker, the last of all, is the end of the epoch, and nothing of it is kept
                table, _ = epoch(chance, now, 200, keys, kinds)
                too_long = table.slice(table.num_rows - 1).set_column(1, "do", pa.array(["shout"]))
                too_long = too_long.set_column(5, "x", pa.array(["x" * TEXT_MAX]))
                with pytest.raises(ms.LimitError):
                    engines.process(pa.concat_tables([table, too_long]))
            table, now = epoch(chance, now, chance.choice([60, 300]), keys, kinds, wild)
            engines.process(table)


def test_recomputed_for_benchmarks():
    """`recompute` changes how, not what."""
    from morphspark.engine import Engine
    from morphspark.native import NativeCore

    chance = random.Random(5)
    config = ms.Config(strategy="ns-explore/t-schedule/e-abort", threads=2)
    kept = Engine(long_app(), None, config)
    anew = Engine(long_app(), None, config, make_core=lambda *args: NativeCore(*args, recompute=True))
    now = 0
    with kept, anew:
        for _ in range(3):
            table, now = epoch(chance, now, 400, 3, ["put"] * 9 + ["look"])
            ours, theirs = (np.array(one.process(table)["sum"].to_pylist(), float) for one in (kept, anew))
            assert np.array_equal(ours, theirs, equal_nan=True)
