"""A real streaming query that is killed, Spark and all, and started again from its checkpoint.

After every death the parent reads the state that was left and compares it with the oracle at the last committed
epoch; it must be the last epoch that the writer saw, or one more. When the query has come to the end of its events,
every epoch must have been handed over, as the oracle says, and the state must be that of running each event once.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
from durable_story import build, events, same_state, state
from tally import TIMED, Tally

import morphspark as ms
from morphspark.durable.directory import StateDirectory
from morphspark.durable.failpoints import NAMES, VARIABLE
from morphspark.reference import open_reference

APP = build()
EPOCHS = 8
JOB = Path(__file__).parent / "spark_job.py"
LOGS = ("delta", "command")
START_S_MAX = 120
# The writer's call first, as only a query has it; then what decides whether an epoch is committed; then the others.
FIRST = ("handover.before", "record.linked", TIMED, "handover.after", "epoch.executed", "record.synced", TIMED)
PLACES = (*FIRST, *(name for name in NAMES if name not in FIRST), TIMED)


def kill_queries(folder, count, seed):
    tally, chance = Tally(count), random.Random(seed)
    oracle = Oracle()
    folder.mkdir(parents=True)
    places = iter(PLACES * (count + 1))
    life = 0
    while tally.left > 0:
        QueryLife(folder / str(life), LOGS[life % len(LOGS)], oracle, tally, chance).run(places)
        life += 1
    folder.rmdir()
    return tally


class Oracle:
    """What it says after each epoch: the state, the output, the late events."""

    def __init__(self):
        self.states, self.rows, self.late = [], [], []
        with open_reference(APP) as engine:
            self.states.append(state(engine))
            for epoch in range(EPOCHS):
                self.rows.append(engine.process(events(epoch)))
                self.late.append(engine.late)
                self.states.append(state(engine))


class QueryLife:
    """A query from its first start until it has read all events."""

    def __init__(self, path, log, oracle, tally, chance):
        self._path, self._log = path, log
        self._oracle, self._tally, self._chance = oracle, tally, chance
        self._handed_over = -1  # the newest epoch that the writer was called for

    def run(self, places):
        for name in ("feed", "output"):
            (self._path / name).mkdir(parents=True)
        self._write_feed()
        while True:
            place = next(places) if self._tally.left > 0 else None
            killed = self._start(place)
            self._check_state()
            if not killed:
                break
            self._tally.kill(place)
        self._check_outputs()
        self._tally.lives += 1
        shutil.rmtree(self._path)

    def _write_feed(self):
        for epoch in range(EPOCHS):
            file = self._path / "feed" / f"{epoch:04}.parquet"
            pq.write_table(events(epoch), file)
            os.utime(file, (epoch, epoch))  # Spark takes files by age

    def _start(self, place):
        """True if it was killed; False if it came to the end."""
        environment = {**os.environ, "CRASH_LOG": self._log}
        if place not in (None, TIMED):
            environment[VARIABLE] = f"{place}:kill:{self._chance.randint(1, 3)}"
        command = [sys.executable, str(JOB), str(self._path)]
        # A session of its own: the Java process dies with it, and does not go on writing to the checkpoint.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True, start_new_session=True)
        too_long = threading.Timer(START_S_MAX, kill_group, [process])
        too_long.start()
        ended = self._watch(process, self._chance.randint(1, 4) if place == TIMED else None)
        status = process.wait()
        kill_group(process)
        assert too_long.is_alive(), f"no end after {START_S_MAX} s: {self._path}"
        too_long.cancel()
        if not ended and status != -signal.SIGKILL:
            raise AssertionError(f"the query failed, status {status}; {self._path} shows it: spark.log")
        return not ended

    def _watch(self, process, calls):
        """Read what it says; after some calls of the writer, at a random moment, kill it. True: it came to its end."""
        for line in process.stdout:
            if line == "end\n":
                return True
            self._handed_over = max(self._handed_over, int(line.split()[1]))
            if calls is not None:
                calls -= 1
                if calls == 0:
                    threading.Timer(self._chance.uniform(0, 0.6), kill_group, [process]).start()
        return False

    def _check_state(self):
        if not (self._path / "state" / "log" / f"{0:012}.json").exists() and self._handed_over < 0:
            return  # killed before there was anything
        with APP.open(self._path / "state", read_only=True) as engine:
            assert engine.epoch - 1 in (self._handed_over, self._handed_over + 1), (engine.epoch, self._handed_over)
            same_state(state(engine), self._oracle.states[engine.epoch], f"{engine.epoch} epochs, {self._path}")
        self._tally.checks += 1

    def _check_outputs(self):
        assert StateDirectory(self._path / "state").verify() == []
        output = self._path / "output"
        for epoch in range(EPOCHS):
            rows = pq.read_table(output / f"rows-{epoch:04}.parquet").to_pylist()
            assert rows == self._oracle.rows[epoch].to_pylist(), f"output of epoch {epoch}, {self._path}"
            late = output / f"late-{epoch:04}.parquet"
            found = pq.read_table(late).to_pylist() if late.exists() else []
            assert found == self._oracle.late[epoch].to_pylist(), f"late events of epoch {epoch}, {self._path}"
        with APP.open(self._path / "state", ms.Config(threads=1), read_only=True) as engine:
            assert engine.epoch == EPOCHS


def kill_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
