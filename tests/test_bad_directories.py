"""State directories that were damaged, mixed up or made by somebody else: each is refused with a message, unchanged."""

import errno
import hashlib
import json
import os
import shutil

import pytest
from durable_story import build, check, steps, truths

import morphspark as ms
from morphspark.durable.directory import StateDirectory
from morphspark.durable.disk import LocalDisk
from morphspark.durable.history import read_history
from morphspark.durable.store import LocalStore, open_store

APP = build()
STEPS = list(steps())
CONFIG = ms.Config(log="delta", snapshot_every=1000, retain_epochs=1000)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Eight epochs with calls, a snapshot in the middle, all records there."""
    path = tmp_path_factory.mktemp("state")
    with APP.open(path, CONFIG) as engine:
        for step in STEPS[:7]:
            step.do(engine)
        engine.snapshot()
        for step in STEPS[7:12]:
            step.do(engine)
    return path


@pytest.fixture
def path(original, tmp_path):
    shutil.copytree(original, tmp_path / "state")
    return tmp_path / "state"


def history(path):
    return read_history(open_store(path))


def content(path):
    return {
        str(file.relative_to(path)): file.read_bytes() if not file.is_symlink() else os.readlink(file)
        for file in sorted(path.rglob("*"))
        if file.is_file() or file.is_symlink()
    }


def refused(path, message, error=ms.StateError, **options):
    """Opening it fails with this message, to write and to read; nothing is changed."""
    before = content(path)
    for read_only in (False, True):
        with pytest.raises(error, match=message):
            APP.open(path, CONFIG, read_only=read_only, **options)
    assert content(path) == before


def of_kind(path, kind):
    return [record for record in history(path).records if record.kind == kind]


def rewrite(file, change):
    """Change a record and give it a checksum that fits: what chance can't do, but somebody could."""
    record = json.loads(file.read_bytes().split(b"\n")[0])
    change(record)
    text = json.dumps(record, separators=(",", ":")).encode()
    file.write_bytes(b"%s\n%s\n" % (text, hashlib.sha256(text).hexdigest().encode()))


def test_the_original_is_fine(path):
    with APP.open(path, CONFIG) as engine:
        check(engine, truths(APP, 9)[12])
    assert StateDirectory(path).verify() == []


# ------------------------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize("keep", [0, 1, 100, -1, -30, -66])
@pytest.mark.parametrize("which", [0, 5, -1])
def test_a_record_that_is_cut(path, keep, which):
    file = path / history(path).records[which].file
    data = file.read_bytes()
    file.write_bytes(data[:keep])
    refused(path, f"{file} is cut")


@pytest.mark.parametrize("which", [0, 3, -1])
def test_every_flipped_bit_of_a_record_is_seen(path, which):
    file = path / history(path).records[which].file
    data = bytearray(file.read_bytes())
    for place in range(0, len(data), max(1, len(data) // 40)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        with pytest.raises(ms.StateError, match=f"{file} (is cut|is damaged: its checksum is wrong)"):
            APP.open(path, CONFIG)


@pytest.mark.parametrize("extra", [b"x", b"\n", b"{}\n"])
def test_a_record_that_is_too_long(path, extra):
    file = path / history(path).last.file
    file.write_bytes(file.read_bytes() + extra)
    refused(path, "is damaged: its checksum is wrong")


def test_a_missing_record(path):
    gone = history(path).records[-3].file
    (path / gone).unlink()
    refused(path, f"{path}/{gone} is missing, and no later snapshot makes it superfluous")


def test_missing_records_that_a_snapshot_makes_superfluous(path):
    snapshot = of_kind(path, "snapshot")[0]
    for record in history(path).records[: snapshot.body.of]:
        (path / record.file).unlink()
    with APP.open(path, CONFIG) as engine:
        check(engine, truths(APP, 9)[12])


def test_a_deletion_that_did_not_end(path):
    (path / "log/000000000002.json").unlink()  # those before it are to go, too
    with APP.open(path, CONFIG) as engine:
        check(engine, truths(APP, 9)[12])
        STEPS[12].do(engine)
    assert not (path / "log/000000000001.json").exists()


def test_no_records_at_all(path):
    shutil.rmtree(path / "log")
    before = content(path)
    with pytest.raises(ms.StateError, match="has data files but no records in log/: they were deleted or moved"):
        APP.open(path, CONFIG)
    assert content(path) == before


def test_two_records_swapped(path):
    first, second = (path / record.file for record in of_kind(path, "epoch")[2:4])
    first_data, second_data = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_data)
    second.write_bytes(first_data)
    refused(path, "says that it is record .*a copy of another one")


def test_a_record_that_was_replaced(path):
    record = of_kind(path, "epoch")[2]
    rewrite(path / record.file, lambda data: data["epoch"].update(clock_us=1))
    refused(path, f"{path}/log/.* does not follow {record.file}: one of the two was replaced")


def test_a_record_of_another_directory(path, tmp_path):
    with APP.open(tmp_path / "other", CONFIG) as engine:
        for step in STEPS[:12]:
            step.do(engine)
    last = history(path).records[-3].file
    for later in history(path).records[-2:]:
        (path / later.file).unlink()
    shutil.copy(tmp_path / "other" / last, path / last)
    refused(path, f"{path}/{last} belongs to another state directory")


def test_a_future_format(path):
    rewrite(path / history(path).last.file, lambda data: data.update(format=3))
    refused(path, "has format 3, and this version of morphspark knows format 2; open the directory with the version")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("number"),
        lambda data: data.update(kind="pickle"),
        lambda data: data["epoch"].update(progress=7),
        lambda data: data["epoch"]["log"].update(name="../../etc/passwd"),
        lambda data: data["epoch"]["log"].update(name="data/../../x.arrow"),
        lambda data: data["epoch"]["log"].update(length=-1),
        lambda data: data["epoch"]["log"]["sections"][0].__setitem__(3, 1 << 60),
        lambda data: data["epoch"].update(types={"ts": "object"}),
    ],
)
def test_a_record_that_makes_no_sense(path, change):
    rewrite(path / of_kind(path, "epoch")[-1].file, change)
    refused(path, "is no record of morphspark: .* it was not written by it")


def test_not_json(path):
    text = b"cos\nsystem\n(S'true'\ntR."  # a pickle, if anybody looked at it so
    file = path / history(path).last.file
    file.write_bytes(b"[]\n%s\n" % hashlib.sha256(b"[]").hexdigest().encode())
    refused(path, "is no record of morphspark")
    file.write_bytes(text)
    refused(path, "is cut")


# ---------------------------------------------------------------------------------------------------------- data files


def data_files(path):
    """A file for each use: of an epoch and a call behind the snapshot."""
    later = history(path).after(of_kind(path, "snapshot")[0].number)
    epoch = next(record.body for record in later if record.kind == "epoch" and record.body.log)
    call = next(record.body for record in later if record.kind == "call")
    return {"delta": epoch.log, "call": call.rows}


@pytest.mark.parametrize("use", ["delta", "call"])
def test_a_data_file_that_is_missing(path, use):
    file = data_files(path)[use].name
    (path / file).unlink()
    refused(path, f"{path}/{file} is missing. Nothing was changed. Put the file back from a copy")
    (problem,) = StateDirectory(path).verify()
    assert f"{file} is missing" in problem


@pytest.mark.parametrize("use", ["delta", "call"])
def test_a_data_file_that_is_cut(path, use):
    file = path / data_files(path)[use].name
    file.write_bytes(file.read_bytes()[:-1])
    refused(path, f"{file} is cut: .* bytes, expected")


@pytest.mark.parametrize("use", ["delta", "call"])
def test_every_flipped_bit_of_a_data_file_is_seen(path, use):
    file = path / data_files(path)[use].name
    data = bytearray(file.read_bytes())
    for place in range(0, len(data), max(1, len(data) // 40)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        with pytest.raises(ms.StateError, match=f"{file} is damaged: the checksum of its part .* is wrong"):
            APP.open(path, CONFIG)


def test_a_damaged_snapshot_is_left_out_while_the_log_says_the_same(path, caplog):
    snapshot = of_kind(path, "snapshot")[0]
    file = path / snapshot.body.rows.name
    file.write_bytes(file.read_bytes()[:-1])
    with APP.open(path, CONFIG) as engine:
        check(engine, truths(APP, 9)[12])
    assert "a snapshot can't be used" in caplog.text and file.name in caplog.text
    for record in history(path).records[: snapshot.body.of]:
        (path / record.file).unlink()
    refused(path, f"{file} is cut")


def test_all_snapshots_are_damaged(tmp_path):
    with APP.open(tmp_path, ms.Config(retain_epochs=99)) as engine:
        for number, step in enumerate(steps(9)):
            step.do(engine)
            if number % 3 == 2:
                engine.snapshot()
    snapshots = of_kind(tmp_path, "snapshot")
    assert len(snapshots) > 2
    for one in snapshots:
        (tmp_path / one.body.rows.name).write_bytes(b"")
    with APP.open(tmp_path) as engine:
        check(engine, truths(APP, 9)[12 + 1])


def test_a_checksum_that_fits_arrow_that_does_not(path):
    """Somebody wrote a file and a record that agree: what is inside is still looked at in full."""
    record = of_kind(path, "epoch")[-1]
    for later in history(path).after(record.number):
        (path / later.file).unlink()
    section = record.body.log.sections[0]
    for data in (b"\x80\x04.", b"\xff" * 300):
        (path / record.body.log.name).write_bytes(data)
        entry = [section.name, section.rows, 0, len(data), hashlib.sha256(data).hexdigest()]
        rewrite(path / record.file, lambda found, entry=entry: found["epoch"]["log"].update(
            sections=[entry], length=entry[3]
        ))  # fmt: skip
        refused(path, "is no valid Arrow in (its )?part 'stock'")


def test_rows_of_other_types(path):
    import pyarrow as pa

    from morphspark.durable.files import encode

    record = of_kind(path, "epoch")[-1]
    for later in history(path).after(record.number):
        (path / later.file).unlink()
    data = encode(pa.RecordBatch.from_pydict({"key": [1], "count": ["x"], "note": [None], "_deleted": [False]}))
    (path / record.body.log.name).write_bytes(data)
    entry = ["stock", 1, 0, data.size, hashlib.sha256(data).hexdigest()]
    rewrite(path / record.file, lambda found: found["epoch"]["log"].update(sections=[entry], length=data.size))
    refused(path, f"{path}/{record.body.log.name}: .*column 'key': expected string, got int64")


def test_a_missing_output_is_told_when_it_is_asked_for(path):
    last = history(path).last_epoch().body
    (path / last.output.name).unlink()
    with APP.open(path, CONFIG) as engine:
        with pytest.raises(ms.StateError, match=f"{last.output.name} is missing"):
            engine.process(None, epoch=last.epoch)
        assert engine.epoch == last.epoch + 1
    (problem,) = StateDirectory(path).verify()
    assert f"epoch {last.epoch}" in problem


# -------------------------------------------------------------------------------------------------------- what it is in


def test_symbolic_links_are_not_followed(path, tmp_path):
    for name in (data_files(path)["delta"].name, history(path).records[2].file):
        file, elsewhere = path / name, tmp_path / "elsewhere"
        shutil.move(file, elsewhere)
        file.symlink_to(elsewhere)
        refused(path, f"{file} is a symbolic link; a state directory holds plain files only")
        file.unlink()
        shutil.move(elsewhere, file)
    shutil.move(path / "data", tmp_path / "data")
    (path / "data").symlink_to(tmp_path / "data")
    before = content(path)
    for options in ({}, {"read_only": True}):
        with pytest.raises(ms.StateError, match="data is a symbolic link"):
            APP.open(path, CONFIG, **options)
    assert content(path) == before


def test_a_link_to_the_whole_directory_is_fine(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    with APP.open(tmp_path / "link", CONFIG) as engine:
        check(engine, truths(APP, 9)[12])


def test_a_folder_in_place_of_a_file(path):
    file = path / data_files(path)["delta"].name
    file.unlink()
    file.mkdir()
    with pytest.raises(OSError, match="irectory|plain file"):
        APP.open(path, CONFIG)


def test_a_pipe_in_place_of_a_file(path):
    file = path / data_files(path)["delta"].name
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ms.StateError, match="expected a plain file"):
        APP.open(path, CONFIG)


def test_a_file_in_place_of_the_directory(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(NotADirectoryError):
        APP.open(tmp_path / "state")


@pytest.mark.parametrize("use", ["delta", "snapshot", "record"])
def test_no_permission(path, use):
    """Root may read everything, so the disk says it."""
    (snapshot,) = of_kind(path, "snapshot")
    name = {"delta": data_files(path)["delta"].name, "snapshot": snapshot.body.rows.name, "record": snapshot.file}[use]
    forbidden = str(path / name)

    class Guarded(LocalDisk):
        def read(self, path, offset, length):
            if path == forbidden:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return super().read(path, offset, length)

    with pytest.raises(PermissionError, match=name):
        APP.open(LocalStore(str(path), disk=Guarded()), CONFIG)
    with APP.open(path, CONFIG) as engine:
        check(engine, truths(APP)[12])


def test_files_of_others_are_left_alone(path):
    (path / "notes.txt").write_text("mine")
    (path / "log" / "notes.txt").write_text("mine")
    (path / "data" / "notes.txt").write_text("mine")
    with APP.open(path, CONFIG) as engine:
        check(engine, truths(APP, 9)[12])
        STEPS[12].do(engine)
    assert len(list(path.rglob("notes.txt"))) == 3


# ---------------------------------------------------------------------------------------------------- whose state it is


def test_another_app(path, counter):
    before = content(path)
    with pytest.raises(ms.StateError, match="holds the state of app 'shop', and app 'counter' wants to open it"):
        counter.open(path)
    assert content(path) == before


def test_another_query(path):
    APP.open(path, CONFIG, query_id="first").close()
    before = content(path)
    with pytest.raises(ms.EpochError, match="holds the state of query first, and query second wants to use it"):
        APP.open(path, CONFIG, query_id="second")
    assert content(path) == before
    with APP.open(path, CONFIG, query_id="first") as engine:
        STEPS[12].do(engine)
    with APP.open(path, CONFIG, read_only=True) as engine:  # reading needs no query
        check(engine, truths(APP, 9)[13])
