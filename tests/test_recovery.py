"""Crashes: what was committed is there afterwards, what was not did not happen, and nothing happens twice."""

import os
import random
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import hypothesis
import pyarrow as pa
import pytest
from durable_story import build, check, events, steps, truths
from hypothesis import given, settings
from strategies import stories

import morphspark as ms
from morphspark.durable import failpoints
from morphspark.durable.directory import StateDirectory
from morphspark.durable.failpoints import NAMES, FailpointError
from morphspark.durable.faults import FaultyDisk, SimulatedDisk
from morphspark.durable.store import LocalStore, UncertainError
from morphspark.testing import assert_same, both_engines, sorted_table

APP = build()
STEPS = list(steps())
CONFIGS = {"delta": ms.Config(log="delta", snapshot_every=3), "command": ms.Config(log="command", snapshot_every=3)}
OF_THE_SINK = ("handover.before", "handover.after")
OF_THE_ENGINE = [name for name in NAMES if name not in OF_THE_SINK]


@cache
def oracle():
    return truths(APP)


# ---------------------------------------------------------------------------------------------------------- failpoints


@pytest.mark.parametrize("mode", CONFIGS)
@pytest.mark.parametrize("name", OF_THE_ENGINE)
def test_a_failure_at_every_failpoint_and_then_a_power_failure(name, mode):
    """Each passage of each failpoint fails once; then the machine loses its power."""
    for nth in (1, 2, 5, 9):
        disk, done = SimulatedDisk(), 0
        with failpoints.armed(f"{name}:raise:{nth}"):
            done = run_until_it_fails(disk, CONFIGS[mode])
        after = LocalStore("/state", disk=disk.after_crash(random.Random(nth)))
        with APP.open(after, CONFIGS[mode]) as engine:
            found = where(engine, done)
            check(engine, oracle()[found])
            for step in STEPS[found : found + 3]:
                step.do(engine)


def run_until_it_fails(disk, config):
    """How many steps were committed, as far as the user was told."""
    engine, done = None, 0
    try:
        engine = APP.open(LocalStore("/state", disk=disk), config)
        for step in STEPS[:16]:
            step.do(engine)
            done += 1
            if done == 8:
                engine.close()
                engine = APP.open(LocalStore("/state", disk=disk), config)
    except (FailpointError, UncertainError, ms.ClosedError):
        pass
    finally:
        if engine is not None:
            engine.close()
    return done


def where(engine, done):
    """What the user was told is there; perhaps one step more, of which nobody heard."""
    truth = oracle()[done]
    same = engine.epoch == truth.epoch and all(
        sorted_table(engine.table(name).to_arrow(), engine.program.table(name)).equals(rows)
        for name, rows in truth.state.items()
    )
    return done if same else done + 1


CHILD = """
import sys
sys.path.insert(0, {tests!r})
from durable_story import build, steps
import morphspark as ms

app, path = build(), sys.argv[1]
engine = app.open(path, ms.Config(log=sys.argv[2], snapshot_every=3))
done = int(sys.argv[3])
for step in list(steps())[done:]:
    step.do(engine)
    done += 1
    print(done, flush=True)
engine.close()
"""


def test_sigkill(tmp_path):
    """A process is killed again and again, at passages drawn from a seed, until the story is through."""
    chance, done, kills = random.Random(1), 0, 0
    root = str(Path(__file__).parent.parent)
    while done < len(STEPS):
        failpoint, mode = f"any:kill:{chance.randint(60, 160)}", chance.choice(list(CONFIGS))
        env = {**os.environ, failpoints.VARIABLE: failpoint, "PYTHONPATH": root}
        child = subprocess.run(
            [sys.executable, "-c", CHILD.format(tests=str(Path(__file__).parent)), str(tmp_path), mode, str(done)],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        told = [int(line) for line in child.stdout.split()]
        done = told[-1] if told else done
        assert child.returncode in (0, -signal.SIGKILL), child.stderr
        kills += child.returncode != 0
        with APP.open(tmp_path, CONFIGS[mode]) as engine:
            done = where(engine, done)
            check(engine, oracle()[done])
        assert StateDirectory(tmp_path).verify() == []
    assert kills >= 4


def test_a_failpoint_that_nobody_knows():
    with pytest.raises(ValueError, match="expected name:action or name:action:nth"), failpoints.armed("nowhere:kill"):
        pass


# ------------------------------------------------------------------------------------------------------- power failures


@pytest.mark.parametrize("mode", CONFIGS)
def test_power_failures(mode):
    """At any moment, and whatever the disk kept of what was not synced: nothing that was committed is lost."""
    for seed in range(25):
        chance, disk, done = random.Random(seed), SimulatedDisk(), 0
        while done < 14:
            store = LocalStore("/state", disk=disk)
            engine = APP.open(store, CONFIGS[mode])
            found = where(engine, done)
            check(engine, oracle()[found])
            done = found
            for step in STEPS[done : done + chance.randint(1, 5)]:
                step.do(engine)
                done += 1
            disk = disk.after_crash(chance)  # the engine goes on in vain, with the disk as it was
            engine.close()


# --------------------------------------------------------------------------------------------------------------- submit


@pytest.mark.parametrize("mode", CONFIGS)
def test_submitted_epochs(tmp_path, mode):
    epochs = [step.epoch for step in STEPS if step.kind == "epoch"]
    with APP.open(tmp_path / "twin") as twin:
        wanted = [twin.process(events(epoch)) for epoch in epochs]
        last = twin.table("stock").to_arrow().sort_by("key")
    with APP.open(tmp_path / "state", CONFIGS[mode]) as engine:
        futures = [engine.submit(events(epoch)) for epoch in epochs]
        assert engine.table("stock").to_arrow().sort_by("key").equals(last)  # waits for all of them
        assert not any(future.cancel() for future in futures)
        for future, rows in zip(futures, wanted, strict=True):
            assert_same(future.result(), rows)
        assert engine.epoch == len(epochs)
    with APP.open(tmp_path / "state", CONFIGS[mode]) as engine:
        assert engine.table("stock").to_arrow().sort_by("key").equals(last)


def test_submit_in_memory(counter):
    with counter.open() as engine:
        future = engine.submit(pa.table({"ts": [1], "key": [1], "amount": [5]}))
        assert future.done() and future.result()["total"].to_pylist() == [5]


def test_a_submitted_epoch_that_can_not_be_written_takes_the_later_ones_along():
    disk = FaultyDisk(SimulatedDisk())
    store = LocalStore("/state", disk=disk)
    with APP.open(store) as engine:
        engine.process(events(0))
        futures = [engine.submit(events(1))]
        futures[0].result()
        disk.arm("full", 20)  # in the second or third epoch from here
        for epoch in range(2, 8):
            try:
                futures.append(engine.submit(events(epoch)))
            except ms.ClosedError as error:
                assert "the engine has stopped" in str(error) and "No space left" in str(error)
        failed = [future.exception() is not None for future in futures]
        assert failed == sorted(failed) and failed[-1] and not failed[0]
        assert engine.stopped is not None
        with pytest.raises(ms.ClosedError, match="Open the state again"):
            engine.table("stock").to_arrow()
    committed = failed.index(True) + 1
    with APP.open(store) as engine, APP.open() as twin:
        assert engine.epoch == committed
        for epoch in range(committed):
            twin.process(events(epoch))
        assert engine.table("stock").to_arrow().sort_by("key").equals(twin.table("stock").to_arrow().sort_by("key"))


def test_a_callback_can_not_use_the_engine(tmp_path):
    seen = []

    def look(future):
        try:
            seen.append(len(engine.table("stock")))
        except ms.EpochError as error:
            seen.append(str(error))

    with APP.open(tmp_path) as engine:
        future = engine.submit(events(0))
        future.add_done_callback(look)
        engine.submit(events(1)).result()
    assert len(seen) == 1
    assert isinstance(seen[0], int) or "a callback of a future can't use the engine" in seen[0]


def test_what_was_not_written_did_not_happen(tmp_path):
    """An epoch fails while it is logged; the engine goes on as if it had never come."""
    disk = FaultyDisk(SimulatedDisk(), "full", 8)
    with APP.open(LocalStore("/state", disk=disk), ms.Config(log="delta")) as engine, APP.open() as twin:
        failures = 0
        for epoch in range(4):
            for _ in range(2):
                try:
                    result = engine.process(events(epoch), epoch=epoch)
                    break
                except OSError:
                    failures += 1
                    assert engine.epoch == epoch and engine.stopped is None
            assert_same(result, twin.process(events(epoch)))
        assert failures == 1
        assert engine.table("stock").to_arrow().sort_by("key").equals(twin.table("stock").to_arrow().sort_by("key"))


def test_epochs_by_their_ids(tmp_path):
    with APP.open(tmp_path) as engine:
        first = engine.process(events(0), epoch=0)
        assert_same(engine.process(events(1), epoch=0), first)  # again: what it gave then
        with pytest.raises(ms.EpochError, match="epoch 2 can't run, as epoch 1 is next"):
            engine.process(events(2), epoch=2)
        assert engine.epoch == 1 and len(engine.metrics) == 1


# ------------------------------------------------------------------------------------------------------- generated apps


@settings(max_examples=40 if os.environ.get("MORPHSPARK_FUZZ") != "long" else 1000)
@given(stories(), hypothesis.strategies.integers(0, 2**16))
def test_generated_apps_with_restarts(story, seed):
    """Any app, any epochs, both logs: after every restart, the oracle is where the engine is."""
    chance = random.Random(seed)
    app = story.build()
    hosted = any(one.kind != "compiled" for one in app.program.functions)  # those never log commands
    disks = {log: SimulatedDisk() for log in ("delta", "auto" if hosted else "command")}
    config = ms.Config(max_string_bytes=story.max_string_bytes, threads=2, snapshot_every=chance.choice([1, 2, "auto"]))

    def open_all():
        return {
            log: chance.choice(story.schedules).open(app, with_log(config, log), LocalStore("/state", disk=disk))
            for log, disk in disks.items()
        }

    with both_engines(app, story.config, []) as truth:
        engines = open_all()
        for name, rows in story.initial.items():
            truth.load(name, rows)
            for engine in engines.values():
                engine.load(name, rows)
        for one in story.epochs:
            wanted = answer(truth, one.table)
            for log, engine in engines.items():
                got = answer(engine, one.table)
                if isinstance(wanted, pa.Table):
                    assert_same(got, wanted, log)
                else:
                    assert got == wanted
            if chance.random() < 0.5:
                for engine in engines.values():
                    engine.close()
                engines = open_all()
            for log, engine in engines.items():
                assert (engine.epoch, engine.watermark) == (truth.epoch, truth.watermark), log
                for spec in app.program.tables:
                    assert_same(sorted_table(engine.table(spec.name).to_arrow(), spec), truth.table(spec.name), log)
        for engine in engines.values():
            engine.close()


def with_log(config, log):
    import dataclasses

    return dataclasses.replace(config, log=log)


def answer(engine, table):
    try:
        return engine.process(table)
    except ms.MorphsparkError as error:
        return f"{type(error).__name__}: {error}"
