"""Random apps with windows and triggers: every strategy says what the oracle says, and so does a restarted engine."""

import os
import random
import tempfile

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
    config = ms.Config(log=chance.choice(["delta", "command", "auto"]), fsync=False, snapshot_every=2)

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
