"""The log: what an epoch leaves in the state directory, how it is read again, and what retention deletes."""

import json
import os

import object_stores
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from durable_story import build, check, events, state, steps, truths

import morphspark as ms
from morphspark import opened
from morphspark.durable.directory import StateDirectory
from morphspark.durable.history import read_history
from morphspark.durable.records import Record, decode_record
from morphspark.durable.store import open_store

APP = build()
TRUTHS = truths(APP)
STEPS = list(steps())


def records(path):
    return read_history(open_store(path)).records


def run(path, config=None, first=0, last=None, restart_every=None):
    engine = APP.open(path, config)
    for number, step in enumerate(STEPS[first:last], first):
        if restart_every and number % restart_every == 0:
            engine.close()
            engine = APP.open(path, config)
            check(engine, TRUTHS[number])
        step.do(engine)
    return engine


# -------------------------------------------------------------------------------------------------------------- formats


def test_what_an_epoch_leaves_behind(tmp_path):
    with run(tmp_path, ms.Config(log="delta", clock=lambda: 42), last=4) as engine:
        found = records(tmp_path)
        assert [record.kind for record in found] == ["bind", "load", "epoch", "epoch", "call"]
        epoch = found[3].body
        assert (epoch.epoch, epoch.progress.watermark, epoch.clock_us, epoch.mode) == (1, 15, 42, "delta")
        assert epoch.counts == {
            name: engine.metrics[-1][name] for name in ("committed", "aborted", "unmatched", "late")
        }
        assert [section.name for section in epoch.log.sections] == ["stock"]  # a table without changes has none
        assert epoch.late is not None and epoch.event_columns[0] == "ts"
        output = pq.read_table(tmp_path / epoch.output.name)
        assert output["_epoch"].to_pylist() == [1] * len(output)


def test_a_record_is_json_and_its_checksum(tmp_path):
    with run(tmp_path, last=2):
        text = (tmp_path / "log/000000000000.json").read_text()
        content, checksum, end = text.split("\n")
        bind = json.loads(content)
        assert (bind["format"], bind["number"], bind["kind"], len(checksum), end) == (2, 0, "bind", 64, "")
        assert ms.Program.from_json(json.dumps(bind["bind"]["program"])) == APP.program
        for record in records(tmp_path):
            again = decode_record(Record.encoded(record)[1], "here", record.number)
            assert again == record and again.sha256 == record.sha256


@pytest.mark.parametrize("log", ["delta", "command", "auto"])
@pytest.mark.parametrize("snapshot_every", [1, 3, "auto"])
@pytest.mark.parametrize("fsync", [True, False])
def test_restarts(tmp_path, log, snapshot_every, fsync):
    config = ms.Config(log=log, snapshot_every=snapshot_every, fsync=fsync, threads=2)
    with run(tmp_path, config, restart_every=4) as engine:
        check(engine, TRUTHS[-1])
    with APP.open(tmp_path, config) as engine:
        check(engine, TRUTHS[-1])
    assert StateDirectory(tmp_path).verify() == []


@pytest.mark.parametrize("log", ["delta", "command"])
@pytest.mark.parametrize("place", ["folder", "memory"])
def test_an_object_store(tmp_path, log, place):
    store = object_stores.in_folder(tmp_path) if place == "folder" else object_stores.in_memory()
    with run(store, ms.Config(log=log, snapshot_every=3, retain_epochs=4)) as engine:
        check(engine, TRUTHS[-1])
    with APP.open(store) as engine:
        check(engine, TRUTHS[-1])
    assert StateDirectory(store).verify() == []


def test_a_command_is_what_ran_in_the_order_it_ran(tmp_path):
    from morphspark.durable.files import read_section

    with run(tmp_path, ms.Config(log="command"), last=4) as engine:
        body = next(record.body for record in records(tmp_path) if record.kind == "epoch")
        stored, order = (read_section(open_store(tmp_path), body.log, one) for one in body.log.sections)
        assert stored.column_names == APP.program.event_columns  # `extra` only passes through
        assert stored["ts"].to_pylist() == events(0)["ts"].to_pylist()
        ran = stored.take(order["order"])["ts"].to_pylist()
        assert ran == sorted(ran)
        assert engine.metrics[-1]["log"] == "command"


def test_auto_takes_the_smaller_log(tmp_path):
    app = ms.App("lists")
    sums = app.table("sums", key="int64", columns={"total": "int64"}, default={"total": 0})

    @app.on()
    def add(e):
        for k in ms.each(e.keys):
            sums[k].total += e.amount

    few = pa.table({"keys": [[1]] * 1000, "amount": [1] * 1000})
    wide = pa.table({"keys": pa.array([], pa.list_(pa.int64())), "amount": pa.array([], pa.int64())})
    with app.open(tmp_path) as engine:
        engine.process(few)  # one row changed
        engine.process(wide)
    assert [one.body.mode for one in records(tmp_path) if one.kind == "epoch"] == ["delta", "delta"]

    wide_rows = ms.App("rows")
    notes = wide_rows.table("notes", key="int64", columns={"text": "string"}, default={"text": ""})

    @wide_rows.on()
    def note(e):
        notes[e.key].text = "a long text that no event brings: " * 10

    with wide_rows.open(tmp_path / "rows") as engine:
        engine.process(pa.table({"key": range(1000)}))
    assert [one.body.mode for one in records(tmp_path / "rows") if one.kind == "epoch"] == ["command"]


def test_an_output_that_parquet_can_not_hold_fails_the_epoch_before_it_commits(tmp_path):
    table = events(0).append_column("odd", pa.array([None] * 8, pa.month_day_nano_interval()))
    with APP.open(tmp_path) as engine:
        with pytest.raises(ms.SchemaError, match="column 'odd' .* can't be stored; drop or cast it before"):
            engine.process(table)
        assert engine.epoch == 0
        engine.process(events(0))


def test_types_of_events_are_remembered(tmp_path, counter):
    with counter.open(tmp_path) as engine:
        engine.process(pa.table({"ts": [1], "key": [1], "amount": [1]}))
    with counter.open(tmp_path) as engine, pytest.raises(ms.SchemaError, match="'amount': expected int64, got double"):
        engine.process(pa.table({"ts": [2], "key": [1], "amount": [1.5]}))


# ----------------------------------------------------------------------------------------------------- snapshots, past


def test_a_snapshot_is_read_while_epochs_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("morphspark.durable.snapshots.CHUNK_ROWS_MIN", 1)
    monkeypatch.setattr("morphspark.durable.snapshots.TIME_SHARE", 0.0)  # one row after each epoch
    with run(tmp_path, ms.Config(snapshot_every=2)) as engine:
        check(engine, TRUTHS[-1])
    found = [record for record in records(tmp_path) if record.kind == "snapshot"]
    assert found and all(record.number > record.body.of + 1 for record in found)
    with APP.open(tmp_path) as engine:
        check(engine, TRUTHS[-1])


def test_a_snapshot_now(tmp_path):
    with run(tmp_path, last=10) as engine:
        engine.snapshot()
        assert records(tmp_path)[-1].kind == "snapshot"
        check(engine, TRUTHS[10])
    with run(tmp_path, first=10, last=15) as engine:
        check(engine, TRUTHS[15])


def test_time_travel(tmp_path):
    with run(tmp_path, ms.Config(retain_epochs=100, snapshot_every=5)) as engine:
        after = {step.epoch: TRUTHS[n + 1] for n, step in enumerate(STEPS) if step.kind == "epoch"}
        for epoch, truth in after.items():
            past = engine.table("stock").at(epoch=epoch)
            assert dict(zip(*past.to_pandas()[["key", "count"]].values.T, strict=True)) == dict(
                zip(*truth.state["stock"].to_pandas()[["key", "count"]].values.T, strict=True)
            )
            assert len(past) == truth.state["stock"].num_rows
        with pytest.raises(ms.EpochError, match="the state after epoch 20 is not there: epochs 0 to 19 are kept"):
            engine.table("stock").at(epoch=20).to_arrow()
        alone = StateDirectory(tmp_path)
        assert alone.epochs == list(range(20))
        assert alone.table("stock", epoch=7).num_rows == after[7].state["stock"].num_rows
        assert alone.output(3).num_rows == after[3].output.num_rows
        with pytest.raises(ms.SchemaError, match="has no table 'stok' then"):
            alone.table("stok")


def test_in_memory_there_is_no_past(counter):
    with counter.open() as engine, pytest.raises(ms.EpochError, match="keeps no past; open it with a path"):
        engine.table("sums").at(epoch=0).to_arrow()


@pytest.mark.parametrize("retain", [1, 2, 5])
def test_retention(tmp_path, retain):
    config = ms.Config(retain_epochs=retain, snapshot_every=3)
    with run(tmp_path, config, last=12) as engine:
        engine.snapshot()  # those that are taken by themselves end when the machine has time
    with run(tmp_path, config, first=12):
        pass
    kept = StateDirectory(tmp_path)
    assert set(range(20 - retain, 20)) <= set(kept.epochs)
    assert len(kept.epochs) <= retain + 12  # what lies behind a snapshot goes
    found = records(tmp_path)
    named = {file.name for record in found for file in record.body.files}
    gone = {
        file.name
        for record in found
        if record.kind == "epoch" and record.body.epoch < 20 - retain
        for file in record.body.outputs
    }
    assert {f"data/{name}" for name in os.listdir(tmp_path / "data")} == named - gone
    assert sorted(os.listdir(tmp_path / "log")) == [os.path.basename(record.file) for record in found]
    assert kept.verify() == []


def test_files_that_no_record_names_go_after_the_first_commit(tmp_path):
    run(tmp_path, last=5).close()
    lost = [tmp_path / "data" / f"{'0' * 32}.arrow", tmp_path / "log" / f"{'1' * 32}.unfinished"]
    for file in lost:
        file.write_text("torn")
    with APP.open(tmp_path) as engine:
        assert all(file.exists() for file in lost)  # another writer may be about to name them
        check(engine, TRUTHS[5])
    with run(tmp_path, first=5, last=6) as engine:
        engine.close()
        assert not any(file.exists() for file in lost)


# ------------------------------------------------------------------------------------------------------------- readers


def test_reading_beside_a_writer(tmp_path):
    for log in ("delta", "command"):
        path = tmp_path / log
        with (
            run(path, ms.Config(log=log, snapshot_every=4), last=4) as writer,
            APP.open(path, read_only=True) as reader,
        ):
            for number, step in enumerate(STEPS[4:], 4):
                check(reader, TRUTHS[number])
                step.do(writer)
                check(reader, TRUTHS[number])  # as it was, until it is told to look
                assert reader.refresh() == TRUTHS[number + 1].epoch
            same = state(reader)
        assert same["stock"].equals(TRUTHS[-1].state["stock"])


def test_a_reader_that_slept_for_long(tmp_path):
    config = ms.Config(snapshot_every=3)
    with run(tmp_path, config, last=4) as writer, APP.open(tmp_path, read_only=True) as reader:
        for step in STEPS[4:]:
            step.do(writer)
        writer.snapshot()
        writer.close()
        assert records(tmp_path)[0].number > 6
        assert reader.refresh() == 20
        check(reader, TRUTHS[-1])


def test_a_reader_that_finds_nothing_new_reads_nothing(tmp_path, monkeypatch):
    with run(tmp_path, ms.Config(), last=4) as writer, APP.open(tmp_path, read_only=True) as reader:
        with monkeypatch.context() as patch:
            patch.setattr(opened, "open_to_read", lambda *_: pytest.fail("all was read anew"))
            assert reader.refresh() == writer.epoch
        check(reader, TRUTHS[4])


@pytest.mark.parametrize("gone", ["record", "data"])
def test_what_a_reader_listed_is_deleted_meanwhile(tmp_path, monkeypatch, gone):
    """By the retention of a writer, which was faster."""
    follow = opened.read_more
    with run(tmp_path, ms.Config(retain_epochs=1), last=4) as writer, APP.open(tmp_path, read_only=True) as reader:
        STEPS[4].do(writer)

        def overtaken(history):
            found = follow(history) if gone == "data" else None
            for step in STEPS[5:9]:
                step.do(writer)
            writer.snapshot()
            STEPS[9].do(writer)
            writer.close()
            if found is None:
                raise FileNotFoundError("a record")
            return found

        monkeypatch.setattr(opened, "read_more", overtaken)
        reader.refresh()
        check(reader, TRUTHS[10])


def test_what_a_reader_can_not_do(tmp_path, counter):
    with pytest.raises(ms.StateError, match="holds no state of morphspark, so there is nothing to read"):
        APP.open(tmp_path, read_only=True)
    with run(tmp_path, last=3):
        pass
    with APP.open(tmp_path, read_only=True) as reader:
        for use in (
            lambda: reader.process(events(1)),
            lambda: reader.submit(events(1)),
            lambda: reader.call("clear", item="x"),
            lambda: reader.load("stock", pa.table({})),
            reader.snapshot,
        ):
            with pytest.raises(ms.EpochError, match="read_only=True"):
                use()
        check(reader, TRUTHS[3])
    with (
        counter.open() as engine,
        pytest.raises(ms.ConfigError, match=r"refresh\(\) is for an engine opened with read"),
    ):
        engine.refresh()


@pytest.mark.parametrize("option", [{"read_only": True}, {"evolve": "tables"}, {"query_id": "q"}])
def test_options_that_need_a_path(counter, option):
    with pytest.raises(ms.ConfigError, match="are about a state directory: give its path"):
        counter.open(**option)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"log": "snapshots"}, "log='snapshots': expected one of auto, delta, command, none"),
        ({"snapshot_every": 0}, "snapshot_every=0: expected a whole number"),
        ({"fsync": 1}, "fsync=1: expected true or false"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ms.ConfigError, match=message):
        ms.Config(**settings)


def test_a_path_without_a_log_is_refused(counter, tmp_path):
    with pytest.raises(ms.ConfigError, match='log="none" keeps nothing'):
        counter.open(tmp_path, ms.Config(log="none"))
