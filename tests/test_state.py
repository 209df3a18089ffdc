"""State over many epochs: rows and strings that come and go, and memory that does not only grow."""

import numpy as np
import pyarrow as pa
import pytest

import morphspark as ms


def notes():
    app = ms.App("notes", order_by="ts")
    t = app.table("notes", key="string", columns={"text": "string", "n": "int64"})

    @app.on(do="put")
    def put(e):
        t.insert(e.k, text=e.text, n=1)

    @app.on(do="change")
    def change(e):
        t[e.k].text = e.text
        t[e.k].n += 1
        ms.require(e.ok, "not ok")

    @app.on(do="drop")
    def drop(e):
        t.delete(e.k)
        return {"there": t[e.k].exists()}

    return app


def note_events(rng, rows, first):
    texts = ["", "short", "x" * 19, "y" * 20, "z" * 21, "é" * 300, "w" * 5000]
    return pa.table(
        {
            "ts": np.arange(first, first + rows),
            "do": rng.choice(["put", "change", "drop"], rows, p=[0.4, 0.45, 0.15]),
            "k": [f"key {n}" * (1 + n % 5) for n in rng.integers(0, 150, rows)],
            "text": rng.choice(texts, rows, p=[0.1, 0.2, 0.1, 0.1, 0.1, 0.2, 0.2]),
            "ok": rng.random(rows) < 0.8,
        }
    )


def test_strings_come_and_go(opened):
    """Several megabytes of text pass through a small table, so that its heap is compacted on the way."""
    rng = np.random.default_rng(11)
    engines = opened(notes(), threads=(1, 2))
    for number in range(8):
        result = engines.process(note_events(rng, 1500, number * 1500))
        reasons = set(result["_reason"].to_pylist())
        assert {None, "require: not ok", "exists: notes", "missing: notes"} <= reasons
    assert 0 < engines.table("notes").num_rows < 150


@pytest.fixture
def passing():
    """Rows that live for one epoch: each event makes its own and drops that of an event before."""
    app = ms.App("passing")
    t = app.table("t", key="int64", columns={"v": "int64", "s": "string"})

    @app.on()
    def run(e):
        t.delete(e.old)
        t.insert(e.new, v=e.new, s="some text of more than twenty bytes")

    return app


def test_rows_come_and_go(passing, opened):
    engines = opened(passing, threads=(2,))
    for number in range(40):
        new = np.arange(1000) + number * 1000
        engines.process(pa.table({"new": new, "old": new - 1000}))
        assert engines.table("t")["key"].to_pylist() == list(new)
        for engine in engines.engines.values():
            assert engine.metrics[-1]["state_bytes"] < 1_500_000  # all 40,000 rows would take 3 MB and more


@pytest.mark.parametrize("abort", [False, True])
def test_keys_that_were_only_named(abort):
    """Reading a missing row, or aborting after writing it, leaves nothing behind."""
    app = ms.App("named")
    t = app.table("t", key="string", columns={"v": "int64"}, default={"v": 7})

    @app.on()
    def run(e):
        if abort:
            t[e.k].v = 1
        ms.require(t[e.k].v != (1 if abort else 0), "never mind")
        return {"v": t[e.k].v}

    with app.open(config=ms.Config(threads=2)) as engine:
        for number in range(40):
            names = [f"a key that is a little longer {number} {n}" for n in range(2000)]
            result = engine.process(pa.table({"k": names}))
            assert set(result["_status"].to_pylist()) == {"aborted" if abort else "committed"}
            assert len(engine.table("t")) == 0
            assert engine.metrics[-1]["state_bytes"] == 0
            assert engine._core.validate()  # the index, too, has no key any more


def test_one_busy_row(counter, opened):
    """Every event of an epoch writes the same row: a chain of versions as long as the epoch."""
    rows = 5000
    batch = pa.table({"ts": range(rows), "key": [7] * rows, "amount": range(rows)})
    engines = opened(counter, threads=(1, 3))
    result = engines.process(batch)
    assert result["total"].to_pylist() == list(np.cumsum(np.arange(rows)))
    assert engines.process(batch.slice(0, 3))["total"].to_pylist()[-1] == sum(range(rows)) + 3


def test_loaded_state_is_large(counter, opened):
    keys = np.random.default_rng(1).permutation(200_000)
    for engine in opened(counter, threads=(2,)).engines.values():
        engine.load("sums", pa.table({"key": keys, "total": keys * 2}))
        result = engine.process(pa.table({"ts": [1, 2], "key": [5, 199_999], "amount": [1, 1]}))
        assert result["total"].to_pylist() == [11, 399_999]
        table = engine.table("sums").to_arrow()
        assert table.num_rows == 200_000
        assert sum(table["total"].to_pylist()) == int(keys.sum()) * 2 + 2
