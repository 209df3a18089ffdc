"""Two writers of one state directory: whoever creates a record first has committed it, however long the other slept."""

import pytest
from durable_story import build, check, events, steps, truths

import morphspark as ms
from morphspark.durable.faults import SimulatedDisk
from morphspark.durable.history import read_history
from morphspark.durable.journal import Journal
from morphspark.durable.records import Bind
from morphspark.durable.store import LocalStore

APP = build()
TRUTHS = truths(APP)
STEPS = list(steps())
BRIEF = ms.Config(log="delta", snapshot_every=1, retain_epochs=1, threads=1)


@pytest.fixture
def disk():
    return SimulatedDisk()


def opened(disk, config=BRIEF):
    return APP.open(LocalStore("/state", disk=disk), config)


def run(engine, first, last):
    for step in STEPS[first:last]:
        step.do(engine)


def test_a_loser_that_submitted_deletes_nothing_of_the_winner(disk):
    """What it took for left over when it opened, the winner's record names now."""
    with opened(disk) as winner:
        run(winner, 0, 2)
        journal, original = winner._journal, winner._journal.append
        losers = []

        def append(body):  # its files are written, its record is not: now the other one opens
            losers.append(opened(disk))
            return original(body)

        journal.append = append
        STEPS[2].do(winner)
        (loser,) = losers
        with pytest.raises(ms.FencedError, match="was taken over"):
            loser.submit(events(STEPS[2].epoch)).result()
        loser.close()
        check(winner, TRUTHS[3])
    with opened(disk) as engine:
        check(engine, TRUTHS[3])


@pytest.mark.parametrize("behind", range(3, 13))
def test_a_writer_that_slept_until_its_name_was_free_again(disk, behind):
    """Its successor's retention has deleted the record that it would have found: it must not believe in its own."""
    sleeper = opened(disk)
    run(sleeper, 0, 2)
    with opened(disk) as successor:
        run(successor, 2, behind)
    cut = read_history(LocalStore("/state", disk=disk)).first_number > sleeper._history.last.number + 1
    with pytest.raises((ms.FencedError, ms.StateError), match="taken over"):
        STEPS[2].do(sleeper)
    with pytest.raises(ms.ClosedError, match="has stopped"):
        STEPS[2].do(sleeper)
    sleeper.close()
    assert cut or behind < 12
    for _ in range(2):  # the second time what it left is gone
        with opened(disk) as engine:
            check(engine, TRUTHS[behind])
            run(engine, behind, behind + 1)
        behind += 1


def test_a_directory_that_was_new_long_ago(disk):
    """Whoever found it empty, and slept, opens what is there by now."""
    with opened(disk) as engine:
        run(engine, 0, 12)
    store = LocalStore("/state", disk=disk)
    assert read_history(store).first_number > 0
    journal = Journal.create(store, Bind(APP.name, APP.program, None), BRIEF)
    assert journal.history.first_number > 0
    journal.close()
    with opened(disk) as engine:
        check(engine, TRUTHS[12])
