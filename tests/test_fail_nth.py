"""Fail the nth call to the disk, for every n of a run of 20 epochs: what is committed stays, the rest did not happen.

After each fault the run goes on for a while, as a user would: an epoch that failed is tried again, an engine that
stopped is opened again. Then the machine crashes (faults.py says how), and what comes back must be what the oracle
says. The run has five parts, with an engine each; a fault in a later part begins with a copy of what the part before
left. `make test` lets every call fail with a plain error (every second one where outputs are written early), and a
sample of them in all other ways; `make faults` takes every call for every fault.
"""

import os
import random
from functools import cache

import pytest
from durable_story import build, check, steps, truths

import morphspark as ms
from morphspark.durable import early
from morphspark.durable.faults import FAULTS, FaultyDisk, SimulatedDisk
from morphspark.durable.store import LocalStore

APP = build()
STEPS = list(steps())
PARTS = [(0, 5), (5, 10), (10, 16), (16, 22), (22, len(STEPS))]  # steps
CONFIGS = {
    "delta": ms.Config(log="delta", snapshot_every=4, threads=1),
    "command": ms.Config(log="command", snapshot_every=7, retain_epochs=3, threads=1),
    "early": ms.Config(log="command", snapshot_every=5, punctuation=3, threads=1),  # outputs of batches that ended, too
}
SAMPLE = 1 if os.environ.get("MORPHSPARK_FAULTS") == "all" else 12  # every so many calls
TRIES = 5
STEPS_AFTER = 1  # a fault


@cache
def oracle():
    return truths(APP)


class Run:
    """A user who does not give up."""

    def __init__(self, disk, config, done):
        self.disk = disk
        self.config = config
        self.done = done  # steps that were committed
        self.engine = None

    def through(self, end):
        """Until a step, or a little further than a fault."""
        self.open()
        left = None
        for _ in range(end - self.done + TRIES):
            if self.done == end or left == 0:
                break
            try:
                STEPS[self.done].do(self.engine)
                self.done += 1
            except (OSError, ms.ClosedError):
                self.look()
            if self.disk.happened:
                left = STEPS_AFTER if left is None else left - 1
        else:
            pytest.fail(f"no end: step {self.done}")
        self.engine.close()

    def open(self, doubt=False):
        """Where the oracle was after the steps that are done; or, in doubt, after one more."""
        for left in reversed(range(TRIES)):
            try:
                self.engine = APP.open(LocalStore("/state", disk=self.disk), self.config)
                break
            except OSError:
                assert left
        if doubt:
            self.done += not equals(self.engine, oracle()[self.done])
        if self.disk.happened:
            self.check()

    def check(self):
        for left in reversed(range(TRIES)):
            try:
                return check(self.engine, oracle()[self.done])
            except OSError:
                assert left

    def look(self):
        """A step failed: nothing happened; or the engine stopped, as it can't know."""
        if self.engine.stopped is not None:
            self.engine.close()
            self.open(doubt=True)
        else:
            self.check()


def equals(engine, truth):
    try:
        check(engine, truth)
    except (AssertionError, OSError):
        return False
    return True


@cache
def parts(mode):
    """For each part: what is on the disk before it, its steps, and the calls that it makes."""
    found, disk = [], SimulatedDisk()
    for first, end in PARTS:
        before = disk.copy()
        counted = FaultyDisk(disk)
        Run(counted, CONFIGS[mode], first).through(end)
        found.append((before, first, end, counted.calls))
    return found


def step(mode, fault):
    if fault == "error":
        return min(SAMPLE, 2) if mode == "early" else 1
    return SAMPLE


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("mode", CONFIGS)
def test_every_call_to_the_disk(mode, fault, monkeypatch):
    if mode == "early":
        early.write_always(monkeypatch.setattr)
    happened, wanted = set(), set()
    for before, first, end, calls in parts(mode):
        concerned = [call for call in calls if call in FAULTS[fault]]
        wanted.update(concerned)
        for nth in range(1, len(concerned) + 1, step(mode, fault)):
            inner = before.copy()
            disk = FaultyDisk(inner, fault, nth)
            run = Run(disk, CONFIGS[mode], first)
            run.through(end)
            happened.add(disk.happened)
            after = LocalStore("/state", disk=inner.after_crash(random.Random(nth)))
            with APP.open(after, CONFIGS[mode]) as engine:
                check(engine, oracle()[run.done])
    assert happened - {""} <= wanted
    assert len(happened - {""}) > len(wanted) / 2
