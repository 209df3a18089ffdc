"""Write-out of one batch overlaps the execution of the next: outputs are equal, and nothing stays behind."""

import pyarrow as pa
import pytest
from durable_story import EPOCHS, build, check, events, steps, truths

import morphspark as ms
from morphspark.durable import early, files
from morphspark.durable.failpoints import FailpointError, armed
from morphspark.testing import assert_same

CONFIG = ms.Config(punctuation=3, threads=1, strategy="serial")


@pytest.fixture
def always(monkeypatch):
    early.write_always(monkeypatch.setattr)


@pytest.fixture
def parts(always, monkeypatch):
    """How many rows each part had."""
    found, add = [], files.OutputWriter.add
    monkeypatch.setattr(files.OutputWriter, "add", lambda self, rows: (found.append(rows.num_rows), add(self, rows)))
    return found


def data_files(path):
    return sorted(one.name for one in (path / "data").iterdir())


@pytest.mark.parametrize("log", ["delta", "command"])
@pytest.mark.parametrize("strategy", ["serial", "ns-explore/t-schedule/e-abort", "s-explore-bfs/v-schedule/l-abort"])
def test_a_whole_story(parts, tmp_path, log, strategy):
    app = build()
    config = ms.Config(punctuation=3, threads=2, strategy=strategy, log=log)
    truth = truths(app)
    with app.open(tmp_path, config) as engine:
        for number, step in enumerate(steps(), 1):
            step.do(engine)
            check(engine, truth[number])
    assert len(parts) > EPOCHS  # several of an epoch
    with app.open(tmp_path, config) as engine:
        check(engine, truth[-1])


def types_app():
    app = ms.App("types", order_by="ts")
    seen = app.table("seen", key="int64", columns={"text": "string"}, default={"text": ""})

    @app.on()
    def see(e):
        ms.require(e.n % 5 != 3, "three")
        seen[e.n].text = seen[e.n].text + e.text
        return {
            "t": seen[e.n].text,
            "b": e.n > 4,
            "d": e.price * 2,
            "f": e.n / 3,
            "none": ms.where(e.n > 4, e.n, e.gap),
        }

    return app


def typed_events(shuffled):
    numbers = [n * 7 % 20 for n in range(20)] if shuffled else list(range(20))
    text = pa.array([f"text {n}" if n % 3 else None for n in numbers])
    return pa.table(
        {
            "ts": pa.array(numbers, pa.timestamp("us", "UTC")),
            "n": pa.array([n % 10 for n in numbers], pa.int64()),
            "text": pa.array([f"é{n}" for n in numbers]).dictionary_encode(),
            "price": pa.array(numbers, pa.decimal128(9, 2)),
            "gap": pa.array([None if n % 2 else n for n in numbers], pa.int64()),
            "list": pa.array([[n] * (n % 3) for n in numbers]),
            "nested": pa.array([{"a": n, "b": [str(n)]} for n in numbers]),
            "coded": text.dictionary_encode(),
            "large": text.cast(pa.large_string()),
            "small": pa.array(numbers, pa.int8()),
            "flag": pa.array([n % 2 == 0 if n % 3 else None for n in numbers]),
            "void": pa.nulls(20),
            "seconds": pa.array(numbers, pa.timestamp("s")),
            "noon": pa.array(numbers, pa.time32("s")),
            "day": pa.array([n * 86_400_000 for n in numbers], pa.date64()),
            "pair": pa.array([[n, n] for n in numbers], pa.list_(pa.field("half", pa.int32()), 2)),
            "map": pa.array([[("k", n)] for n in numbers], pa.map_(pa.string(), pa.int32())),
        }
    )


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("chunks", [1, 3])
def test_every_type(parts, tmp_path, shuffled, chunks):
    table = typed_events(shuffled)
    cut = pa.concat_tables([table.slice(0, 7), table.slice(7, 1), table.slice(8)]) if chunks == 3 else table
    with types_app().open(tmp_path / "whole", ms.Config(threads=1)) as engine:
        wanted = engine.process(table)
        assert_same(engine.process(None, epoch=0), wanted, "stored output, written as a whole")
    with types_app().open(tmp_path / "parts", CONFIG) as engine:
        assert_same(engine.process(cut), wanted, "result")
        assert parts == [3, 3, 3, 3, 3, 3, 2]
        assert_same(engine.process(None, epoch=0), wanted, "stored output")


def test_no_order_and_diverted_rows(parts, tmp_path):
    app = ms.App("plain", order_by=None)
    app.table("seen", key="int64", columns={"n": "int64"}, default={"n": 0})

    @app.on(n=[1, 2, 3])
    def see(e):
        return {"n2": e.n * 2}

    table = pa.table({"n": [1, 2, 3, 4, 5, 1, 2, 3]})
    with app.open(tmp_path, CONFIG) as engine:
        assert_same(engine.process(table), engine.process(None, epoch=0), "stored output")
    assert parts == [3, 3, 2]


def test_small_epochs_and_triggers_are_written_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(early.EarlyOutput, "begin", lambda self: pytest.fail("begun"))
    with build().open(tmp_path / "small", CONFIG) as engine:
        engine.process(events(0))
    monkeypatch.setattr(early, "EPOCH_ROWS_MIN", 0)
    app = ms.App("ticks", order_by="ts")
    seen = app.table("seen", key="int64", columns={"n": "int64"}, default={"n": 0})

    @app.on()
    def see(e):
        seen[e.ts].n += 1

    @app.every(2, window=2, each=seen)
    def tick(w):
        return {"end": w.end}

    with app.open(tmp_path / "triggers", CONFIG) as engine:
        assert_same(engine.process(pa.table({"ts": [1, 2, 3, 4, 5]})), engine.process(None, epoch=0), "stored output")


def test_a_later_batch_fails(always, tmp_path):
    """What was written of the epoch is deleted, and it may be tried again."""
    app, raising = ms.App("picky"), [True]
    seen = app.table("seen", key="int64", columns={"n": "int64"}, default={"n": 0})

    @ms.udf("int64", python=True)
    def picky(n):
        if n == 7 and raising[0]:
            raise MemoryError("no more")
        return n

    @app.on()
    def see(e):
        seen[e.n].n = picky(e.n)

    table = pa.table({"n": list(range(9))})
    with app.open(tmp_path, CONFIG) as engine:
        engine.process(pa.table({"n": [1]}))
        before = data_files(tmp_path)
        with pytest.raises(MemoryError):
            engine.process(table)
        engine.close()  # waits for what is under way behind
        assert data_files(tmp_path) == before
    raising.clear()
    raising.append(False)
    with app.open(tmp_path, CONFIG) as engine:
        assert engine.epoch == 1
        assert_same(engine.process(table), engine.process(None, epoch=1), "stored output")


@pytest.mark.parametrize("nth", [1, 2])
def test_writing_a_part_fails(always, tmp_path, nth):
    app = build()
    with app.open(tmp_path, CONFIG) as engine:
        with armed(f"output.part:raise:{nth}"), pytest.raises(FailpointError):
            engine.process(events(0))
        assert engine.epoch == 0 and engine.stopped is None
        assert data_files(tmp_path) == []
        assert_same(engine.process(events(0)), engine.process(None, epoch=0), "stored output")


def test_a_column_that_cannot_be_stored_is_named(always, tmp_path):
    with types_app().open(tmp_path, CONFIG) as engine:
        span = pa.array([(1, 2, 3)] * 20, pa.month_day_nano_interval())
        table = typed_events(False).append_column("span", span)
        with pytest.raises(ms.SchemaError, match="'span'"):
            engine.process(table)
        assert data_files(tmp_path) == []
        assert engine.process(typed_events(False)).num_rows == 20


def test_submitted_epochs(parts, tmp_path):
    app = build()
    truth = truths(app)
    with app.open(tmp_path, ms.Config(punctuation=3, threads=1)) as engine:
        engine.load("stock", truth[1].state["stock"])
        futures = [engine.submit(events(epoch)) for epoch in range(3)]
        rows = [future.result() for future in futures]
        assert_same(engine.process(None, epoch=2), rows[-1], "stored output")
    assert len(parts) >= 6
