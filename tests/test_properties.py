"""Generated apps on generated events: the native engine, the oracle and the direct evaluation say the same.

`make test` runs a fixed sequence; `make fuzz` explores for MORPHSPARK_FUZZ_SECONDS (1800). A failing example prints as
a scenario: put it into scripts/, say what is right, and it stays tested.
"""

import os
import random
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import hypothesis
import model as m
import pyarrow as pa
from direct import Direct
from functions import FUNCTIONS
from hypothesis import given, settings
from hypothesis.strategies import integers, just
from story_tally import Tally
from strategies import SCHEDULES, Story, cuts, schedule_of, stories

import morphspark as ms
from morphspark.strategy import NAMES
from morphspark.testing import both_engines

LONG = os.environ.get("MORPHSPARK_FUZZ") == "long"
LONG_SECONDS = float(os.environ.get("MORPHSPARK_FUZZ_SECONDS", "1800"))
PAIRS_WANTED = 2_000
EXAMPLES, EXAMPLES_IN_PARTS = 480, 42  # the latter for each that is in CUTTING
CUTTING = [name for name in (*NAMES, "nested") if cuts(name) or name == "nested"]
SIZES_IN_PARTS = (16, 24, 8, 40, 12, 60)
DEALT, STORIES_OF_A_ROUND = 8, 25  # schedules and stories of a round of `make fuzz`
SEEDS = integers(0, 2**32 - 1)

RUNS_WANTED = 5_000  # (app, batch, schedule), as asked: see story_tally.py
RUNS_WANTED_OF_EACH = 40
RUNS_WANTED_WITH = {
    "cut": 2_000,  # a transaction into operations
    "aborts": 3_000,
    "cascades": 500,  # somebody ran again because of somebody else's abort
    "redone by tstream": 40,
    "aliases": 2_000,  # two sites of a transaction name one row
    "lists": 1_000,  # a transaction of the app goes through one
    "lists, and cut": 250,  # such a transaction runs as a whole, beside others that don't
    "batches of 8": 2_000,  # events, or more
    **{f"threads={threads}": 500 for threads in (1, 2, 3, 4)},
    **{f"punctuation={events}": 300 for events in ("auto", 1, 3, 7, 16)},
}
DEPENDENT_WANTED = 0.6  # share of runs in which one transaction of a batch depends on another
CASCADES_WANTED_OF_EACH = 8  # strategy that cuts transactions
SWITCHES_WANTED = 12  # strategies that `auto` went to or left inside an epoch
APPS_WANTED_OF_EACH = 10  # that call a function

pairs = {"engines": 0, "direct": 0}
tally = Tally()
called: Counter[str] = Counter()  # apps, by user function


def check(story: Story) -> None:
    """Run a story on all engines; compare with the direct evaluation where that is defined."""
    typed = all(kind is not None for one in story.epochs for kind in one.kinds.values())
    direct = Direct(story.app) if story.app.forced and typed else None
    source = m.source(story.app)
    called.update(name for name in FUNCTIONS if f"def {name}(" in source)
    with both_engines(story.build(), story.config, story.schedules) as engines:
        for name, table in story.initial.items():
            engines.load(name, table)
            if direct:
                direct.load(name, plain_rows(table))
        for one in story.epochs:
            pairs["engines"] += 1
            try:
                result = engines.process(one.table)
            except ms.MorphsparkError as error:
                check_error(story, direct, one, error)
                continue
            tally.add(story, engines, one, result)
            if direct:
                pairs["direct"] += 1
                compare_direct(story, direct, engines, one, result)


def check_error(story, direct, one, error):
    """Generated batches are well formed: only lateness and long strings can fail an epoch.

    And a column without a type: int64 / coalesce(untyped, int64) is float64 today, but a decimal once it has one.
    """
    if isinstance(error, ms.LateError):
        assert story.app.late == "fail"
        if direct:
            assert any(direct.is_late(event) for event in events_of(one))
    elif isinstance(error, ms.SchemaError):
        assert None in one.kinds.values(), repr(error)
    else:
        assert isinstance(error, ms.LimitError) and "a string grew" in str(error), repr(error)


def compare_direct(story, direct, engines, one, result):
    expected, diverted = direct.epoch(events_of(one))
    got = plain_rows(result)
    assert len(got) == len(expected)
    assert engines.late.num_rows == len(diverted)
    for row, (event, status, reason, returned) in zip(got, expected, strict=True):
        what = f"event {event}"
        assert row["_status"] == status, f"{what}: {row['_status']} ({row['_reason']}), direct {status} ({reason})"
        assert (row["_reason"] or "").startswith(reason or ""), f"{what}: {row['_reason']}, direct {reason}"
        names = [name for name in row if name.startswith("r_")]
        assert {n: show(row[n]) for n in names} == {n: show(returned.get(n)) for n in names}, what
    for table in story.app.tables:
        rows = plain_rows(engines.table(table.name))
        have = {tuple(row[n] for n, _ in table.key): {n: show(row[n]) for n, _ in table.columns} for row in rows}
        want = {key: {n: show(v) for n, v in row.items()} for key, row in direct.state[table.name].items()}
        assert have == want, f"table {table.name}"


def show(value):
    return repr(float(value)) if isinstance(value, float) else repr(value)


def events_of(one):
    names = list(one.values)
    return [dict(zip(names, row, strict=True)) for row in zip(*one.values.values(), strict=True)] if names else (
        [{}] * one.table.num_rows
    )  # fmt: skip


def plain_rows(table):
    """Rows as the direct evaluation has them: timestamps as microseconds, decimals as fractions."""
    columns = {}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        values = column.to_pylist()
        if pa.types.is_decimal(column.type):
            values = [None if value is None else Fraction(value) for value in values]
        columns[name] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# ------------------------------------------------------------------------------------------------------- tests


def check_with(dealt, story, seed):
    """On more schedules than its own; `seed` deals strategies to transactions, and interleavings."""
    chance, types = random.Random(seed), [one.name for one in story.app.transactions]
    check(replace(story, schedules=story.schedules + [schedule_of(one, chance, types) for one in dealt]))


def fuzz_for_long():
    """Round after round, each from a seed that is printed; a failure prints the story that shrank.

    Stories bring schedules of their own, and in each round all of them run on some more from a deck with the whole
    product of them, so that none is left out.
    """
    deadline = time.monotonic() + LONG_SECONDS
    rounds, deck = 0, random.SystemRandom().sample(SCHEDULES, len(SCHEDULES))
    while time.monotonic() < deadline:
        seed = random.SystemRandom().getrandbits(64)
        at = rounds * DEALT % len(deck)
        dealt = deck[at : at + DEALT]
        print(f"round {rounds}, seed {seed}, {pairs}, {dealt}", flush=True)  # before it runs: it may crash
        drawn = stories(sizes=SIZES_IN_PARTS, parts=True) if rounds % 2 else stories()
        fuzz = settings(max_examples=STORIES_OF_A_ROUND)(given(just(dealt), drawn, SEEDS)(check_with))
        hypothesis.seed(seed)(fuzz)()
        rounds += 1
    through = rounds * DEALT / len(deck)
    print(f"{rounds} rounds: all {len(deck)} schedules {through:.1f} times")
    assert through >= 1, "not all schedules ran: give it more time"


@settings(max_examples=EXAMPLES)
@given(stories())
def fuzz_briefly(story):
    check(story)


def fuzz_in_parts():
    """In rounds, so that each strategy that cuts transactions has its turn: stories run on it besides their own."""
    drawn = stories(sizes=SIZES_IN_PARTS, parts=True)
    for number, name in enumerate(CUTTING):
        dealt = [(name, 1 + number % 4, "auto", False), (name, 4 - number % 4, 16, True)]
        fuzz = settings(max_examples=EXAMPLES_IN_PARTS)(given(just(dealt), drawn, SEEDS)(check_with))
        hypothesis.seed(number)(fuzz)()


def test_engines_agree():
    (fuzz_for_long if LONG else fuzz_briefly)()


def test_engines_agree_on_apps_that_run_in_parts():
    if not LONG:  # which draws them, too
        fuzz_in_parts()


def test_enough_pairs():
    """Runs after test_engines_agree; says nothing if that was not selected."""
    print(f"\n(app, batch) pairs: {pairs}; {tally}")
    if pairs["engines"]:
        check_runs()
        assert len(tally.switched) >= SWITCHES_WANTED, tally.switched
        assert pairs["engines"] >= PAIRS_WANTED
        assert all(called[name] >= APPS_WANTED_OF_EACH for name in FUNCTIONS), called
        assert pairs["direct"] >= PAIRS_WANTED / 3


def check_runs():
    """Of every strategy enough, and enough with what makes it hard."""
    assert tally.runs.total() >= RUNS_WANTED
    assert all(tally.runs[name] >= RUNS_WANTED_OF_EACH for name in (*NAMES, "nested"))
    assert all(tally.met[what] >= wanted for what, wanted in RUNS_WANTED_WITH.items())
    assert tally.met["dependencies"] >= DEPENDENT_WANTED * tally.runs.total()
    assert all(tally.cascades[name] >= CASCADES_WANTED_OF_EACH for name in CUTTING if name != "tstream")
