"""Random apps with windows and triggers: every strategy says what the oracle says, and so does a restarted engine."""

import os
import random
import tempfile

import pyarrow as pa
import pytest
from strategies import some_schedules
from window_apps import Maker, epoch

import morphspark as ms
from morphspark.engine import Engine
from morphspark.reference import ReferenceCore
from morphspark.testing import assert_same, both_engines

SEEDS = int(os.environ.get("MORPHSPARK_WINDOW_SEEDS", "120"))


def story(seed):
    chance = random.Random(seed)
    clock = chance.choice(["int64", "timestamp"])
    app, text = Maker(chance, clock).build()
    now, epochs = 0, []
    for _ in range(chance.randint(2, 5)):
        now += chance.choice([0, 3, 10])
        epochs.append(epoch(chance, clock, now, chance.choice([0, 1, 9, 25])))
        now += epochs[-1].num_rows
    return chance, clock, app, text, epochs


def moment(chance, engine, clock):
    now = engine.watermark or 0
    return now + chance.randint(-2, 15) * (1_000_000 if clock == "timestamp" else 1)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_engines_agree(seed):
    chance, clock, app, text, epochs = story(seed)
    schedules = some_schedules(chance, [one.name for one in app.program.transactions])
    try:
        with both_engines(app, ms.Config(), schedules) as engines:
            for table in epochs:
                engines.process(table)
                if chance.random() < 0.4:
                    engines.advance(moment(chance, engines, clock))
    except BaseException as error:
        error.add_note(text)
        raise


@pytest.mark.parametrize("seed", range(0, SEEDS, 2))
def test_restarts(seed):
    """The state directory is closed and opened again all the time; nothing of it shows."""
    chance, clock, app, text, epochs = story(seed)
    make_core = ReferenceCore if seed % 4 == 0 else None
    hosted = any(one.kind != "compiled" for one in app.program.functions)  # such apps can't log commands
    config = ms.Config(
        log=chance.choice(["delta", "auto"] if hosted else ["delta", "command", "auto"]), fsync=False, snapshot_every=2
    )

    def open_again(engine=None):
        if engine is not None:
            if chance.random() < 0.3:
                engine.snapshot()
            engine.close()
        return Engine(app, folder, config, make_core=make_core)

    try:
        with tempfile.TemporaryDirectory() as folder, app.open() as wanted:
            engine = open_again()
            for table in epochs:
                assert_same(engine.process(table), wanted.process(table))
                if chance.random() < 0.7:
                    engine = open_again(engine)
                if chance.random() < 0.4:
                    until = moment(chance, wanted, clock)
                    assert_same(engine.advance(until), wanted.advance(until))
                if chance.random() < 0.4:
                    engine = open_again(engine)
                assert engine._visible().progress == wanted._visible().progress
            engine.close()
    except BaseException as error:
        error.add_note(text)
        raise


@pytest.mark.parametrize("seed", range(6))
def test_long_windows(seed):
    """Long enough that sums are kept and move on with the window; rows vanish and come back, epochs roll back."""
    chance = random.Random(seed)
    app = ms.App("long", order_by="ts")
    t = app.table("t", key="int64", columns={"f": "float64", "n": "int64"}, default={"f": 0.0, "n": 0})

    @app.on(kind="put")
    def put(e):
        t[e.k].f = e.f
        t[e.k].n = e.n

    @app.on(kind="drop")
    def drop(e):
        t.delete(e.k)

    @app.on()
    def look(e):
        short, long = t[e.k].over(60), ms.window([t[k] for k in ms.each(e.lk)], 250)
        last = t[e.k].over(rows=300)
        return {"r1": short.f.sum(), "r2": long.f.mean(), "r3": short.n.mean(), "r4": last.n.mean(), "r5": last.f.sum()}

    with both_engines(app, ms.Config(max_epoch_rows=500), some_schedules(chance, ["put", "drop", "look"])) as engines:
        now = 0
        for _ in range(6):
            table = epoch(chance, "int64", now, 300)
            kinds = [
                chance.choice(["put"] * 12 + ["look"] * 3 + ["drop"] * (chance.random() < 0.05)) for _ in range(300)
            ]
            times = sorted(now + chance.randint(0, 120) for _ in range(300))
            table = table.set_column(table.column_names.index("kind"), "kind", pa.array(kinds))
            table = table.set_column(0, "ts", pa.array(times))
            engines.process(table)
            for engine in engines.engines.values():  # one that rolls back in the middle
                with pytest.raises(ms.LimitError):
                    limited(engine, table)
            now += 120


def limited(engine, table):
    """An epoch that fails after it was executed."""
    size, engine.config = engine.config, ms.Config(max_state_bytes=1)
    try:
        engine.process(table)
    finally:
        engine.config = size
