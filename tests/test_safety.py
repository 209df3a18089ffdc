"""Ctrl-C, fork, threads, and the GIL: an epoch happens whole or not at all, whoever interrupts it."""

import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.reference import open_reference

KEYS = 100


def batch(rows, ts=1):
    return pa.table({"ts": [ts] * rows, "key": [n % KEYS for n in range(rows)], "amount": [1] * rows})


def check_whole_epochs(engine, rows):
    """Every committed epoch added `rows` in all, so the state tells how many there were."""
    totals = engine.table("sums").to_arrow()["total"].to_pylist()
    assert sum(totals) == engine.epoch * rows
    assert len(set(totals)) <= 1


# ----------------------------------------------------------------------------------------------------------- Ctrl-C


@contextlib.contextmanager
def interrupted_after(seconds):
    """KeyboardInterrupt in the main thread after this time, as Ctrl-C raises it."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


KINDS = {
    "native": lambda app, path: app.open(),
    "reference": lambda app, path: open_reference(app),
    "delta": lambda app, path: app.open(path, ms.Config(log="delta", snapshot_every=5)),
    "command": lambda app, path: app.open(path, ms.Config(log="command", snapshot_every=5)),
}


@pytest.mark.parametrize(
    ("kind", "rows", "tries"),
    [("native", 20_000, 250), ("reference", 400, 80), ("delta", 2_000, 250), ("command", 2_000, 150)],
)
def test_interrupts_at_any_moment(counter, tmp_path, kind, rows, tries):
    events = batch(rows)
    rng = random.Random(5)
    with KINDS[kind](counter, tmp_path) as engine:
        engine.process(events)
        started = time.perf_counter()
        engine.process(events)
        usual = time.perf_counter() - started
        interrupts = 0
        for _ in range(tries):
            try:
                with interrupted_after(rng.random() * usual * 1.3):
                    engine.process(events)
            except KeyboardInterrupt:
                interrupts += 1
            check_whole_epochs(engine, rows)
        assert interrupts > tries / 10
        assert engine.process(events).num_rows == rows
        check_whole_epochs(engine, rows)
        assert len(engine.metrics) <= engine.epoch
        epoch = engine.epoch
    if kind in ("delta", "command"):
        with KINDS[kind](counter, tmp_path) as engine:  # what it believed is what is on the disk
            assert engine.epoch == epoch
            check_whole_epochs(engine, rows)


@pytest.mark.parametrize("kind", ["delta", "command"])
def test_interrupts_of_submitted_epochs(counter, tmp_path, kind):
    rng, events, submitted = random.Random(6), batch(2_000), []
    with KINDS[kind](counter, tmp_path) as engine:
        for _ in range(150):
            try:
                with interrupted_after(rng.random() * 0.01):
                    submitted.append(engine.submit(events))
                    submitted.append(engine.submit(events))
            except KeyboardInterrupt:
                pass
            if rng.random() < 0.3:
                check_whole_epochs(engine, 2_000)
        check_whole_epochs(engine, 2_000)
        epoch = engine.epoch
        assert all(future.result().num_rows == 2_000 for future in submitted) and len(submitted) <= epoch
    with KINDS[kind](counter, tmp_path) as engine:
        assert engine.epoch == epoch
        check_whole_epochs(engine, 2_000)


def test_a_long_batch_is_interrupted_early(counter):
    events = batch(3_000_000)
    with counter.open(config=ms.Config(threads=1)) as engine:
        engine.process(events)
        started = time.perf_counter()
        engine.process(events)
        usual = time.perf_counter() - started
        for _ in range(5):  # on a busy machine a batch may end before the alarm does
            started = time.perf_counter()
            try:
                with interrupted_after(usual * 0.1):
                    engine.process(events)
            except KeyboardInterrupt:
                break
        else:
            pytest.fail("five batches, and none was interrupted")
        assert time.perf_counter() - started < usual + 1
        check_whole_epochs(engine, 3_000_000)


def test_what_is_left_of_a_graph_is_not_explored(counter):
    """Chains with thousands of units that wait for each other: walking through them takes longer than running them."""
    events = batch(400_000)
    with counter.open(config=ms.Config(strategy="tstream", threads=3)) as engine:
        started = time.perf_counter()
        engine.process(events)
        usual = time.perf_counter() - started
        with pytest.raises(KeyboardInterrupt), interrupted_after(usual * 0.3):
            while True:
                started = time.perf_counter()
                engine.process(events)
        assert time.perf_counter() - started < usual + 1
        check_whole_epochs(engine, 400_000)


_SIGINT = """
import signal, sys
import pyarrow as pa
import morphspark as ms

app = ms.App("counter")
sums = app.table("sums", key="int64", columns={"total": "int64"}, default={"total": 0})

@app.on()
def add(e):
    sums[e.key].total += 1

rows = 200_000
events = pa.table({"key": [n % 100 for n in range(rows)]})
engine = app.open()
engine.process(events)
try:
    print("ready", flush=True)
    while True:
        engine.process(events)
except KeyboardInterrupt:
    totals = engine.table("sums").to_arrow()["total"].to_pylist()
    assert sum(totals) == engine.epoch * rows, (sum(totals), engine.epoch)
    engine.process(events)
    engine.close()
    print("whole", flush=True)
"""


def test_a_real_sigint():
    root = str(Path(__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": root + os.pathsep + os.environ.get("PYTHONPATH", "")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", _SIGINT], **pipes, text=True, env=env)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=60)
    assert (out, child.returncode) == ("whole\n", 0), errors


# ------------------------------------------------------------------------------------------------------------- fork


def in_a_fork(task):
    """Run a task in a forked child; what it returned, or None if it hung."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns that threads don't come along
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends the child if it hangs
        try:
            os.write(write, str(task()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer or None


def outcomes(engine):
    """What every use of an engine ends in."""
    words = []
    for use in (
        lambda: engine.process(batch(1)),
        lambda: engine.load("sums", batch(1)),
        lambda: engine.table("sums"),
        engine.close,
        lambda: engine.process(batch(1)),
    ):
        try:
            use()
            words.append("done")
        except ms.MorphsparkError as error:
            words.append(type(error).__name__)
    return " ".join(words)


def test_fork_leaves_the_engine_to_its_process(counter, opened):
    for engine in opened(counter, threads=(2,)).engines.values():
        engine.process(batch(1000))
        assert (
            in_a_fork(lambda engine=engine: outcomes(engine)) == "ClosedError ClosedError ClosedError done ClosedError"
        )
        engine.process(batch(1000))
        check_whole_epochs(engine, 1000)


def test_fork_during_a_batch(counter):
    """The child inherits a lock that nobody there will ever release."""
    with counter.open() as engine:
        events = batch(500_000)
        thread = threading.Thread(target=lambda: [engine.process(events) for _ in range(4)])
        thread.start()
        time.sleep(0.05)
        assert in_a_fork(lambda: outcomes(engine)) == "ClosedError ClosedError ClosedError done ClosedError"
        thread.join()
        check_whole_epochs(engine, 500_000)


def test_a_child_opens_its_own_engine(counter):
    def own():
        with counter.open(config=ms.Config(threads=2)) as engine:
            return engine.process(batch(50_000)).num_rows

    with counter.open(config=ms.Config(threads=2)) as engine:
        engine.process(batch(50_000))
        assert in_a_fork(own) == "50000"


# ---------------------------------------------------------------------------------------------------------- threads


def test_calls_from_several_threads_take_turns(counter, opened):
    for engine in opened(counter, threads=(2,)).engines.values():
        epochs, failures = [], []

        def work(engine=engine, epochs=epochs, failures=failures):
            try:
                for _ in range(25):
                    epochs.append(engine.process(batch(200))["_epoch"][0].as_py())
                    check = engine.table("sums").to_arrow()["total"].to_pylist()
                    assert len(set(check)) == 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert sorted(epochs) == list(range(100))
        check_whole_epochs(engine, 200)


def test_closing_while_others_work(counter):
    engine = counter.open(config=ms.Config(threads=2))
    ended = []

    def work():
        try:
            while True:
                engine.process(batch(5_000))
        except ms.ClosedError:
            ended.append(True)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    engine.close()
    for thread in threads:
        thread.join(timeout=30)
    assert ended == [True] * 3


def test_the_gil_is_free_during_a_batch(counter):
    events = batch(2_000_000)
    with counter.open(config=ms.Config(threads=1)) as engine:
        engine.process(events)
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        time.sleep(0.02)
        started = time.perf_counter()
        engine.process(events)
        ended = time.perf_counter()
        done.set()
        thread.join()
    during = [tick for tick in ticks if started < tick < ended]
    longest = max(b - a for a, b in zip([started, *during], [*during, ended], strict=True))
    assert longest < (ended - started) / 2, f"no Python ran for {longest:.3f} s of {ended - started:.3f} s"


# ------------------------------------------------------------------------------------------------------------- life


def test_engines_that_nobody_closes(counter):
    for _ in range(30):
        engine = counter.open(config=ms.Config(threads=3))
        engine.process(batch(1000))
        view = engine.table("sums")
        del engine
    gc.collect()
    assert len(view) == KEYS


def test_many_engines_at_once(counter):
    with contextlib.ExitStack() as stack:
        engines = [stack.enter_context(counter.open(config=ms.Config(threads=2))) for _ in range(40)]
        for engine in engines:
            engine.process(batch(1000))
        for engine in engines:
            check_whole_epochs(engine, 1000)


# --------------------------------------------------------------------------------------------------- signal handlers


@contextlib.contextmanager
def called_while_busy(function):
    """Call a function in a signal handler, again and again, while the main thread is at work."""
    seen = []

    def handle(number, frame):
        try:
            seen.append(function())
        except ms.MorphsparkError as error:
            seen.append(error)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.06, 0.06)
        yield seen
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("use", ["table", "process"])
def test_a_signal_handler_can_not_use_a_busy_engine(counter, use):
    rows = 2_000_000
    events = batch(rows)
    with counter.open() as engine:
        uses = {"table": lambda: len(engine.table("sums")), "process": lambda: engine.process(batch(1))}
        with called_while_busy(uses[use]) as seen:
            engine.process(events)
        busy = [one for one in seen if isinstance(one, ms.EpochError)]
        assert busy, "the handler ran while the engine was at work"
        assert "is at work in this thread" in str(busy[0])
        outside = len(seen) - len(busy) if use == "process" else 0
        total = sum(engine.table("sums").to_arrow()["total"].to_pylist())
        assert total == rows + outside


def test_a_signal_handler_closes_a_busy_engine_after_its_call(counter):
    engine, events = counter.open(), batch(2_000_000)
    with called_while_busy(engine.close) as seen:
        result = engine.process(events)
    assert seen and result.num_rows == 2_000_000
    with pytest.raises(ms.ClosedError):
        engine.process(batch(1))


# ---------------------------------------------------------------------------------------------------------- memory

_SHORTAGE = """
import resource
import numpy as np
import pyarrow as pa
import morphspark as ms

app = ms.App("moves", order_by="i", events={"i": "int64", "a": "int64", "b": "int64"})
t = app.table("t", key="int64", columns={"v": "int64"}, default={"v": 0})

@app.on()
def move(e):
    t[e.a].v -= 1
    t[e.b].v += 1
    return {"v": t[e.a].v}

def events(rows, keys):
    random = np.random.default_rng(rows)
    return pa.table({"i": np.arange(rows), "a": random.integers(0, keys, rows), "b": random.integers(0, keys, rows)})

def limit(size):
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))

def mapped():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

few, many = events(500, 500), events(150_000, 60_000)
with app.open() as engine:
    kept = engine.process(many)  # Arrow, which ends the process of a shortage of its own, has its memory now
for megabytes in range(0, 34, 2):
    with app.open(config=ms.Config(strategy="lock", threads=3)) as engine:
        if megabytes % 4 == 0:
            engine.process(few)
        limit(mapped() + megabytes * 1_000_000)
        try:
            engine.process(many)
        except MemoryError:
            print("short")
        limit(resource.RLIM_INFINITY)
        assert engine.process(few).num_rows == 500
"""


def test_a_shortage_of_memory_on_any_thread_is_an_error():
    """A thread's first exception needs memory, too: without it the C++ runtime would end the process."""
    done = subprocess.run([sys.executable, "-c", _SHORTAGE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "short" in done.stdout
