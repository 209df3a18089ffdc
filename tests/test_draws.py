"""ms.random and ms.now: the same values whatever the engine and the schedule, and when an epoch is executed again."""

import datetime
import functools
import itertools
import random

import pyarrow as pa
import pytest
from declared import Declared, refused, returning

import morphspark as ms
from morphspark.draws import between_epochs, run_of, uniform
from morphspark.reference import open_reference
from morphspark.strategy import NAMES
from morphspark.testing import Schedule

NOON = 1_700_000_000_000_000
NESTED = {"split": "ns-explore/f-schedule/e-abort", "*": "s-explore-bfs/v-schedule/e-abort"}
TABLES = ("left", "right", "seen")


def ticking(first=NOON):
    """A clock of its own for each engine: another time for each epoch, call and advance."""
    return itertools.count(first, 1_000_003).__next__


def build(seed=7, triggers=True):
    app = ms.App("chance", order_by="ts", late="divert", seed=seed)
    left = app.table("left", key="int64", columns={"v": "float64"}, default={"v": 0.0})
    right = app.table("right", key="int64", columns={"v": "float64", "at": "timestamp"}, default=None)
    seen = app.table("seen", key="int64", columns={"n": "int64", "last": "float64"}, default={"n": 0, "last": 0.0})

    @app.on(kind=0)
    def split(e):  # cut into operations: each computes what it needs
        drawn = ms.random()
        left[e.k].v += drawn
        with ms.when(~right[e.b].exists()):
            right.insert(e.b, v=ms.random(), at=ms.now())
        right[e.b].v -= drawn * left[e.k].v
        return {"drawn": drawn, "at": ms.now()}

    @app.on(kind=1)
    def lucky(e):
        ms.require(ms.random() < 0.7, "unlucky")
        left[e.k].v = ms.where(e.b > 2, ms.random(), -ms.random())
        return {"drawn": left[e.k].v}

    @app.on(kind=2)
    def loops(e):
        for one in ms.each(e.items):
            left[one].v += ms.random()
            for other in ms.each(e.items):
                with ms.when(ms.random() < 0.5):
                    left[other].v -= ms.random()
        return {"drawn": ms.max(ms.random() for _ in ms.each(e.items))}

    @app.on(kind=3)
    def jump(e):  # a key that chance and the clock choose
        target = ms.where(ms.random() < 0.5, e.k, (ms.now() - e.when) % 5)
        left[target].v += 1.0
        return {"drawn": left[target].v}

    def tick(w):
        seen[1].n += 1
        seen[1].last = ms.random()
        return {"drawn": seen[1].last, "at": ms.now()}

    if triggers:
        app.every(10, window=10)(tick)
    return app


def events(seed, count=120):
    chance = random.Random(seed)

    def column(make):
        return [make() for _ in range(count)]

    first = seed * 40
    return pa.table(
        {
            "ts": pa.array(column(lambda: chance.choice([None, *[first + chance.randrange(60)] * 20])), pa.int64()),
            "kind": column(lambda: chance.choice([0, 0, 1, 2, 3, 9])),
            "k": column(lambda: chance.randrange(6)),
            "b": column(lambda: chance.randrange(6)),
            "when": pa.array(column(lambda: chance.randrange(10**15)), pa.timestamp("us", "UTC")),
            "items": column(lambda: [chance.randrange(6) for _ in range(chance.randrange(4))]),
        }
    )


def rest(engine):
    found = engine.tables(*TABLES)
    return [found[name].sort_by("key").to_pylist() for name in TABLES], engine._visible().progress


def story(engine, epochs=3):
    """Epochs, and what may happen between them."""
    told = []
    for number in range(epochs):
        told.append(engine.process(events(number)))
        told.append(engine.late.num_rows)
        told.append(engine.call("lucky", k=1, b=number))
        told.append(engine.call("split", k=2, b=4))
        told.append(engine.advance(number * 40 + 65).to_pylist())
    return told, rest(engine)


@functools.cache
def expected(triggers=True):
    with open_reference(build(triggers=triggers), ms.Config(clock=ticking())) as engine:
        return story(engine)


@pytest.mark.parametrize("strategy", [*(name for name in NAMES if name != "nolock"), NESTED], ids=str)
def test_every_strategy_draws_the_same(strategy):
    for threads, punctuation, seed in ((2, "auto", None), (1, 17, None), (3, 50, 11)):
        schedule = Schedule(strategy, threads, punctuation, seed)
        for triggers in (True, False):
            with schedule.open(build(triggers=triggers), ms.Config(clock=ticking())) as engine:
                assert story(engine) == expected(triggers)


def test_the_story_has_what_it_is_about():
    told, _ = expected()
    assert told[6] > 0  # late events that were set aside
    assert any("unlucky" in str(one) for one in told[5]["_reason"].to_pylist())
    drawn = [one for table in told[::5] for one in table["drawn"].to_pylist() if one is not None]
    assert len(set(drawn)) > 0.8 * len(drawn)
    assert {"tick"} < set(told[0]["_kind"].to_pylist()) and told[4]


# ------------------------------------------------------------------------------------------------------------- formula


def test_the_formula():
    """The same numbers as in tests/native/draws_test.cc."""
    run = run_of(42, 5)
    assert run == 0xCA77A06B5710B770
    assert uniform(run, 0, 0).hex() == "0x1.66d0b92895a80p-8"
    assert uniform(run, 7, 3).hex() == "0x1.3431fd7eb820ap-1"
    assert uniform(run, 7, 3, (2, 1)).hex() == "0x1.0666e4d626578p-3"


def test_all_that_it_depends_on():
    runs = [run_of(seed, epoch, part) for seed in (0, -1, 1, 2**64, 2**64 + 1) for epoch in range(3) for part in (0, 1)]
    drawn = [uniform(run, position, step) for run in runs for position in range(5) for step in range(5)]
    drawn += [uniform(runs[0], 0, 0, path) for path in ((0,), (1,), (0, 0), (0, 1), (1, 0))]
    assert len(set(drawn)) == len(drawn)
    assert len({between_epochs(calls, aborted) for calls in range(9) for aborted in range(9)} - {0}) == 81


@pytest.mark.parametrize("open_engine", [ms.App.open, open_reference], ids=["native", "reference"])
def test_values_by_hand(open_engine):
    app = ms.App("dice", seed=5)

    @app.on()
    def roll(e):
        first = ms.random()
        inner = ms.sum(ms.random() for _ in ms.each(e.items))
        return {"first": first, "inner": inner, "second": ms.random()}

    calls = [index for index, step in enumerate(app.program.transactions[0].steps) if step.op == "random"]
    with open_engine(app) as engine:
        for epoch in range(2):
            found = engine.process(pa.table({"items": [[0, 0], [0]]})).to_pylist()
            run = run_of(5, epoch)
            for position, row in enumerate(found):
                first, inner, second = calls
                assert (row["first"], row["second"]) == (uniform(run, position, first), uniform(run, position, second))
                assert row["inner"] == sum(uniform(run, position, inner, [i]) for i in range(len(row["items"])))


def test_uniform():
    app = ms.App("many")

    @app.on()
    def draw(e):
        return {"x": ms.random()}

    with app.open() as engine:
        drawn = engine.process(pa.table({"n": range(100_000)}))["x"].to_numpy()
    assert 0 <= drawn.min() < 1e-3 and 1 - 1e-3 < drawn.max() < 1 and len(set(drawn)) > 99_990
    shares = [((drawn >= i / 10) & (drawn < (i + 1) / 10)).mean() for i in range(10)]
    assert all(abs(share - 0.1) < 0.005 for share in shares)


# ------------------------------------------------------------------------------------------------------------ recovery


@pytest.mark.parametrize("core", ["native", "reference"])
@pytest.mark.parametrize("log", ["command", "delta"])
def test_recovery_finds_what_was_drawn(tmp_path, log, core):
    told, (tables, progress) = expected()

    def opened(clock):
        config = ms.Config(log=log, clock=clock, strategy="s-explore-bfs/c-schedule/e-abort", threads=2, punctuation=9)
        return open_reference(build(), config, tmp_path) if core == "reference" else build().open(tmp_path, config)

    with opened(ticking()) as engine:
        assert story(engine) == expected()
    later = NOON + 10**15
    with opened(lambda: later) as engine:
        assert rest(engine) == (tables, progress)
        assert engine.process(events(2), epoch=2) == told[10]  # stored, not drawn again
        again = engine.process(events(3))
        run = run_of(7, 3)
        called = [one for one in again.to_pylist() if one["_kind"] == "split" and one["_status"] == "committed"]
        steps = build().program.transactions[0].steps
        first = next(index for index, step in enumerate(steps) if step.op == "random")
        positions = {uniform(run, position, first) for position in range(len(again))}
        assert called and all(one["drawn"] in positions for one in called)
        assert {one["at"] for one in called} == {moment(later)}


def moment(us):
    return datetime.datetime.fromtimestamp(us // 10**6, datetime.UTC) + datetime.timedelta(microseconds=us % 10**6)


def test_calls_draw_something_else_each_time(tmp_path):
    app = ms.App("calls")
    t = app.table("t", key="int64", columns={"v": "float64"}, default={"v": 0.0})

    @app.on()
    def draw(e):
        t[1].v = ms.random()
        ms.require(t[1].v < e.below, "too much")
        return {"v": t[1].v, "at": ms.now()}

    drawn = []
    for clock in (ticking(), ticking(NOON + 10**9)):
        with app.open(tmp_path, ms.Config(clock=clock)) as engine:
            drawn += [engine.call(draw, below=2.0).columns for _ in range(3)]
            tried = [engine.call(draw, below=0.5).status for _ in range(20)]
            assert {"committed", "aborted"} == set(tried)
            engine.process(pa.table({"below": [2.0]}))
            drawn += [engine.call(draw, below=2.0).columns for _ in range(2)]
    assert len({one["v"] for one in drawn}) == len({one["at"] for one in drawn}) == len(drawn) == 10
    assert drawn[0]["at"] == moment(NOON)


def test_snapshots_know_how_many_calls_there_were(tmp_path):
    config = ms.Config(snapshot_every=1, retain_epochs=1, log="command", clock=ticking())
    with build().open(tmp_path, config) as engine:
        story(engine, 2)
        known = engine._visible().progress
    with build().open(tmp_path, config) as engine:
        assert engine._visible().progress == known and known.calls > 0


# ------------------------------------------------------------------------------------------------------------ programs


def test_mistakes():
    refused(Declared(), returning(lambda e: ms.random(6)), "ms.random() takes no arguments", "[0, 1)")
    refused(Declared(), returning(lambda e: ms.random(seed=1)), "takes no arguments")
    refused(Declared(), returning(lambda e: ms.now("UTC")), "ms.now() takes no arguments")
    refused(Declared(), returning(lambda e: ms.now() * 2), "timestamp * int64")
    for word in (ms.random, ms.now):
        with pytest.raises(ms.TraceError, match="only inside a function"):
            word()


@pytest.mark.parametrize("given", [1.5, None, "noon", True, 2**63])
def test_a_clock_that_tells_no_time(given):
    app = ms.App("late")
    app.on()(returning(lambda e: ms.now()))
    with (
        app.open(config=ms.Config(clock=lambda: given)) as engine,
        pytest.raises(ms.ConfigError, match="microseconds since 1970"),
    ):
        engine.process(pa.table({"k": [1]}))


def test_programs_tell_them():
    program = build().program
    assert "random()" in str(program) and "now()" in str(program)
    assert ms.Program.from_json(program.to_json()) == program
    assert build(8).program.hash != program.hash
