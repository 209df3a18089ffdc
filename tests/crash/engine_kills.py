"""An engine that is killed again and again while it lives through the story of durable_story.py.

Each life is a state directory with a configuration of its own. A child opens it, finds what was committed, compares
all of it with the oracle, and goes on; then it is killed, and the next child opens what it left. Children are forks of
one process that has imported everything and opened nothing, so a start costs milliseconds.

What a child did, it says in one byte through a pipe, when the engine has said so. So the parent knows which steps were
acknowledged: the next child must find them all, and at most what was under way besides.
"""

import contextlib
import os
import random
import shutil
import signal
import time
import traceback
from collections import deque

import pyarrow as pa
from durable_story import build, check, events, steps, truths
from tally import ANYWHERE, TIMED, Tally

import morphspark as ms
from morphspark.durable import early
from morphspark.durable.directory import StateDirectory
from morphspark.durable.failpoints import NAMES, armed, reach
from morphspark.testing import assert_same

APP = build()
STEPS = list(steps())
IN_FLIGHT_MAX = 3  # epochs that were submitted and not waited for
# how often a run of some steps passes; others: 12
NTH_MAX = {"open.recovered": 1, "output": 3, "snapshot": 3, "retention": 6}
CONFIGS = [
    {"log": "delta", "snapshot_every": 3},
    {"log": "command", "snapshot_every": 4, "retain_epochs": 3},
    {"log": "auto", "snapshot_every": 1, "retain_epochs": 1},
    {"log": "delta", "retain_epochs": 5, "threads": 2, "strategy": "ns-explore/t-schedule/l-abort"},
    # outputs of batches that ended are written early:
    {"log": "command", "threads": 2, "punctuation": 4},
    {"log": "command", "punctuation": 3},
    {"log": "delta", "punctuation": 2, "snapshot_every": 4},
]


def kill_engines(folder, count, seed):
    tally, oracle = Tally(count), truths(APP)
    places = Places(seed)
    folder.mkdir(parents=True)
    life = 0
    while tally.left > 0:
        config = CONFIGS[life % len(CONFIGS)]
        Life(folder / str(life), {"threads": 1, **config}, life % 3 == 2, oracle, tally, places).run()
        life += 1
    if count >= len(places.names) * 4:  # named ones are every second, and not all come to pass
        assert tally.places() >= set(NAMES), f"never killed at {set(NAMES) - tally.places()}"
    folder.rmdir()
    return tally


class Places:
    """Where the next child dies: every second time at a failpoint by name, in turn; else anywhere."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self.names = list(NAMES)  # the one that waits longest first
        self._turn = 0

    def next(self, early):
        """What to tell the tally, the failpoint to arm, and the seconds after which to kill; one of both is None.

        `early`: outputs are written before their epoch has ended.
        """
        self._turn += 1
        if self._turn % 2:
            name = next(one for one in self.names if early or one != "output.part")
            self._move(name, len(self.names))
            group = NTH_MAX.get(name) or NTH_MAX.get(name.split(".")[0]) or 12
            return name, f"{name}:kill:{self._random.randint(1, group)}", None
        if self._turn % 4:
            return ANYWHERE, f"any:kill:{self._random.randint(1, 150)}", None
        return TIMED, None, self._random.uniform(0, 0.15)

    def not_reached(self, name):
        if name in self.names:
            self._move(name, 0)  # at once again: nobody was killed there

    def _move(self, name, place):
        self.names.remove(name)
        self.names.insert(place, name)


class Life:
    """A state directory from its first child to the end of the story."""

    def __init__(self, path, config, ahead, oracle, tally, places):
        self._path, self._config, self._ahead = path, ms.Config(**config), ahead
        self._oracle, self._tally, self._places = oracle, tally, places
        self._early = self._config.punctuation != "auto"
        self._done = 0  # steps that were acknowledged
        self._in_doubt = 0  # steps that may have been committed besides

    def run(self):
        while self._done < len(STEPS):
            where, failpoint, seconds = self._places.next(self._early) if self._tally.left > 0 else ("", None, None)
            if self._child(failpoint, seconds):
                self._tally.kill(where)
            else:
                self._places.not_reached(where)
        self._check_end()
        self._tally.lives += 1
        shutil.rmtree(self._path)

    def _child(self, failpoint, seconds):
        """Let a child live; True if it was killed."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._be_child(failpoint, writing)
        os.close(writing)
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        with open(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not killed and status != 0:
            raise AssertionError(f"a child failed, status {status}; {self._path} shows it, {self._config}")
        if told:  # else it died before it had looked: as much is in doubt as before
            self._done = told[-1]
            self._in_doubt = 1 + IN_FLIGHT_MAX * self._ahead
            self._tally.checks += 1
        return killed

    # -- in the child

    def _be_child(self, failpoint, pipe):
        status = 1
        try:
            with armed(failpoint) if failpoint else contextlib.nullcontext():
                self._live(lambda done: os.write(pipe, bytes([done])))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)  # nothing of the parent's is cleaned up here

    def _live(self, tell):
        if self._early:
            early.write_always()  # in this child
        with APP.open(self._path / "state", self._config) as engine:
            done = self._find(engine)
            tell(done)
            if self._ahead:
                self._go_on_ahead(engine, done, tell)
            else:
                self._hand_over(engine.epoch - 1, lambda: engine.process(None, epoch=engine.epoch - 1))
                for number, step in enumerate(STEPS[done:], done + 1):
                    step.do(engine)
                    tell(number)
                    if step.kind == "epoch":
                        self._hand_over(step.epoch, lambda: engine.process(None, epoch=engine.epoch - 1))

    def _find(self, engine):
        """How many steps are committed; all that were acknowledged, and exactly as the oracle says."""
        newest = min(self._done + self._in_doubt, len(STEPS))
        errors = []
        for done in range(newest, self._done - 1, -1):
            try:
                check(engine, self._oracle[done])
                return done
            except AssertionError as error:
                errors.append(f"after {done} steps: {error}")
        raise AssertionError(
            "\n".join([f"steps {self._done} to {newest} could be there; epoch {engine.epoch}", *errors])
        )

    def _go_on_ahead(self, engine, done, tell):
        """Epochs by submit: several are under way when the child dies, and each tells when it is durable."""
        waiting = deque()
        for number, step in enumerate(STEPS[done:], done + 1):
            while waiting and (step.kind == "call" or len(waiting) >= IN_FLIGHT_MAX):
                waiting.popleft().result()
            if step.kind != "epoch":
                step.do(engine)
                tell(number)
                continue
            future = engine.submit(events(step.epoch))
            future.add_done_callback(lambda one, number=number: one.exception() or tell(number))
            waiting.append(future)
        for future in waiting:
            future.result()

    def _hand_over(self, epoch, read):
        """What comes again must be the same; a writer that died half-way leaves nothing under the name."""
        if epoch < 0:
            return
        reach("handover.before")
        file = self._path / f"output-{epoch}"
        data = encoded(read())
        if file.exists():
            assert file.read_bytes() == data, f"epoch {epoch} was handed over again, and differs"
        file.with_suffix(".unfinished").write_bytes(data)
        os.replace(file.with_suffix(".unfinished"), file)
        reach("handover.after")

    # -- at the end

    def _check_end(self):
        state = StateDirectory(self._path / "state")
        assert state.verify() == []
        wanted = {truth.epoch - 1: truth.output for truth in self._oracle if truth.output is not None}
        if not self._ahead:
            found = {int(one.name.split("-")[1]): one.read_bytes() for one in self._path.glob("output-*")}
            assert sorted(found) == sorted(wanted), "an output was not handed over"
            for epoch, data in found.items():
                assert_same(decoded(data), wanted[epoch], f"output of epoch {epoch}")


def encoded(rows):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def decoded(data):
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
