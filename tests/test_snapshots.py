"""Snapshots that go wrong: none of them is ever believed."""

import threading

import pytest
from durable_story import build, check, steps, truths

import morphspark as ms
from morphspark.durable import snapshots
from morphspark.durable.directory import StateDirectory
from morphspark.durable.files import DataWriter

APP = build()
STEPS = list(steps(6))


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_chunk_that_can_not_be_written_ends_the_snapshot(tmp_path, monkeypatch, caplog, nth):
    """Later chunks, and the end, are queued by then: without these rows there must be no record."""
    calls = 0

    class FailingOnce(DataWriter):
        def add_rows(self, name, rows):
            nonlocal calls
            calls += 1
            if calls == nth:
                raise OSError("no space left")
            super().add_rows(name, rows)

    monkeypatch.setattr(snapshots, "DataWriter", FailingOnce)
    monkeypatch.setattr(snapshots, "TIME_SHARE", 1e3)  # all chunks at once
    with APP.open(tmp_path, ms.Config(snapshot_every=1, retain_epochs=99)) as engine:
        for step in STEPS:
            step.do(engine)
    assert "a snapshot could not be written; a later epoch tries again: no space left" in caplog.text
    tables = [_tables(one.body) for one in StateDirectory(tmp_path).records if one.kind == "snapshot"]
    assert tables and all(one == {"stock", "orders"} for one in tables)
    with APP.open(tmp_path) as engine:
        check(engine, truths(APP, 6)[-1])


def _tables(body):
    return {section.name for section in body.rows.sections}


def test_none_begins_behind_an_epoch_that_was_submitted_and_lost(tmp_path):
    """Memory has that epoch and the disk does not: an image of it would bring back what never happened."""
    go_on = threading.Event()

    def write():
        go_on.wait(10)
        raise OSError("no space left")

    with APP.open(tmp_path, ms.Config(snapshot_every=1)) as engine:
        for step in STEPS[:2]:
            step.do(engine)
        journal, known = engine._journal, engine._visible()
        journal.committer.commit_ahead(write, lambda: None)  # as `submit` does
        threading.Timer(0.1, go_on.set).start()  # while the snapshot's beginning waits for what is under way
        with pytest.raises(ms.ClosedError, match="no space left"):
            journal.step_snapshot(engine._core, known.progress, known.types, 1.0)
        assert not journal.is_in_snapshot
    assert [one.kind for one in StateDirectory(tmp_path).records] == ["bind", "load", "epoch"]
    with APP.open(tmp_path) as engine:
        check(engine, truths(APP, 6)[2])
