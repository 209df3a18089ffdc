"""What durability rests on: files that are written once, and names that one writer gets."""

import threading

import object_stores
import obstore
import obstore.store
import pyarrow as pa
import pytest

import morphspark as ms
from morphspark.durable.disk import LocalDisk
from morphspark.durable.faults import FaultyDisk, SimulatedDisk
from morphspark.durable.store import LocalStore, UncertainError, open_store


@pytest.fixture(params=["local", "without fsync", "simulated", "objects", "objects in memory"])
def store(request, tmp_path):
    made = {
        "local": lambda: LocalStore(str(tmp_path / "state")),
        "without fsync": lambda: LocalStore(str(tmp_path / "state"), fsync=False),
        "simulated": lambda: LocalStore("/state", disk=SimulatedDisk()),
        "objects": lambda: object_stores.in_folder(tmp_path / "state"),
        "objects in memory": object_stores.in_memory,
    }[request.param]()
    made.make_folders(("log", "data"))
    return made


def test_files_are_written_listed_read_and_deleted(store):
    store.write("data/one", [b"abc", memoryview(b"def")])
    store.sync("data")
    assert store.files("data") == {"one": 6}
    assert bytes(store.read("data/one")) == b"abcdef"
    assert bytes(store.read("data/one", 2, 3)) == b"cde"
    assert bytes(store.read("data/one", 4, 10)) == b"ef"
    store.delete("data/one")
    store.delete("data/one")
    assert store.files("data") == {} and store.files("nowhere") == {}
    with pytest.raises(FileNotFoundError):
        store.read("data/one")


def test_a_name_is_taken_once(store):
    assert store.put_if_absent("log/0", b"first")
    assert not store.put_if_absent("log/0", b"second")
    assert bytes(store.read("log/0")) == b"first"
    assert store.files("log") == {"0": 5}  # and nothing else stays behind


def test_of_many_writers_one_gets_a_name(store):
    won = []

    def write(number):
        for name in range(20):
            if store.put_if_absent(f"log/{name}", b"%d" % number):
                won.append((name, number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for name, _ in won) == list(range(20))
    assert all(bytes(store.read(f"log/{name}")) == b"%d" % number for name, number in won)


def test_a_file_that_could_not_be_written_leaves_nothing(tmp_path):
    disk = FaultyDisk(LocalDisk(), "short", 1)
    store = LocalStore(str(tmp_path), disk=disk)
    store.make_folders(("log", "data"))
    with pytest.raises(OSError, match="No space left"):
        store.write("data/one", [b"x" * 100])
    assert store.files("data") == {}
    assert store.put_if_absent("log/0", b"y")


@pytest.mark.parametrize(
    ("fault", "call", "certain"),
    [("error", "link", True), ("after", "link", True), ("error", "sync_folder", False), ("full", "write", True)],
)
def test_what_is_known_after_a_failed_put(tmp_path, fault, call, certain):
    class Failing(LocalDisk):
        def __getattribute__(self, name):
            return getattr(faulty, name) if name == call and armed else super().__getattribute__(name)

    armed = False
    disk = Failing()
    faulty = FaultyDisk(LocalDisk(), fault, 1)
    store = LocalStore(str(tmp_path), disk=disk)
    store.make_folders(("log",))
    armed = True
    if (fault, call) == ("after", "link"):  # it happened, whatever the call says
        assert store.put_if_absent("log/0", b"x")
    elif certain:
        with pytest.raises(OSError) as error:
            store.put_if_absent("log/0", b"x")
        assert not isinstance(error.value, UncertainError)
        assert store.put_if_absent("log/0", b"x")
    else:
        with pytest.raises(UncertainError, match="was created, but perhaps not kept by the disk"):
            store.put_if_absent("log/0", b"x")


def test_a_file_system_without_links_is_refused(tmp_path):
    class NoLinks(LocalDisk):
        def link(self, source, target):
            raise PermissionError(1, "Operation not permitted", source)

    with pytest.raises(ms.ConfigError, match="can't link files .* so two writers could both commit"):
        counter().open(LocalStore(str(tmp_path / "state"), disk=NoLinks()))


def counter():
    app = ms.App("counter")
    sums = app.table("sums", key="int64", columns={"total": "int64"}, default={"total": 0})

    @app.on()
    def add(e):
        sums[e.key].total += 1

    return app


def test_an_object_store_without_conditional_puts_is_refused():
    server = {"endpoint": "http://127.0.0.1:9", "region": "x", "access_key_id": "x", "secret_access_key": "x"}
    objects = obstore.store.S3Store("bucket", **server, conditional_put="disabled")
    store = object_stores.in_memory()
    store._objects = objects
    with pytest.raises(ms.ConfigError, match="does not put an object only if it is absent"):
        counter().open(store)


def test_an_object_store_that_takes_a_condition_and_ignores_it_is_refused(monkeypatch):
    real = obstore.put
    monkeypatch.setattr(obstore, "put", lambda objects, name, data, **how: real(objects, name, data))
    store = object_stores.in_memory()
    with pytest.raises(ms.ConfigError, match="does not put an object only if it is absent"):
        counter().open(store)
    assert store.files("log") == store.files("data") == {}


@pytest.mark.parametrize(
    ("fault", "known", "committed"),
    [("answer lost", False, True), ("not sent", False, False), ("sent twice", True, True)],
)
def test_what_is_known_after_a_conditional_put_that_failed(monkeypatch, fault, known, committed):
    real, armed = obstore.put, []

    def put(objects, name, data, **how):
        if "mode" not in how:  # no condition: a data file
            return real(objects, name, data)
        if armed and fault == "not sent":
            raise obstore.exceptions.GenericError("connection refused")
        done = real(objects, name, data, **how)
        if armed and fault == "answer lost":
            raise obstore.exceptions.GenericError("connection reset")
        return real(objects, name, data, **how) if armed else done  # on its way a proxy sent it again

    monkeypatch.setattr(obstore, "put", put)
    store, events = object_stores.in_memory(), pa.table({"key": [1, 1, 2]})
    engine = counter().open(store)
    engine.process(events)
    armed.append(True)
    if known:
        engine.process(events)
    else:
        with pytest.raises(UncertainError, match="it can't be told whether it exists"):
            engine.process(events)
        with pytest.raises(ms.ClosedError, match="Open the state again"):
            engine.process(events)
    armed.clear()
    engine.close()
    with counter().open(store) as engine:
        assert engine.epoch == 1 + committed
        assert dict(zip(*engine.table("sums").to_arrow().to_pydict().values(), strict=True)) == (
            {1: 4, 2: 2} if committed else {1: 2, 2: 1}
        )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("hdfs://host/state", "hdfs can neither link files nor put an object only if it is absent"),
        ("", "expected a folder for the state, such as 'state/ledger'"),
        (7, "expected a folder for the state"),
    ],
)
def test_bad_paths(path, message):
    with pytest.raises(ms.ConfigError, match=message):
        open_store(path)


def test_an_object_store_needs_its_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(ms.ConfigError, match=r"pip install 'morphspark\[objects\]'"):
        open_store("s3://bucket/state")


def test_paths_that_name_a_local_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("state", f"{tmp_path}/state", f"file://{tmp_path}/state", tmp_path / "state"):
        assert open_store(path).location == f"{tmp_path}/state"


def test_a_crash_keeps_what_was_synced_and_chance_decides_on_the_rest():
    import random

    disk = SimulatedDisk()
    store = LocalStore("/state", disk=disk)
    store.make_folders(("data",))
    store.write("data/kept", [b"kept"])
    store.sync("data")
    store.write("data/perhaps", [b"bytes are synced, the name is not"])
    names, sizes = set(), set()
    handle = disk.create("/state/data/torn")
    disk.write(handle, b"0123456789")
    disk.sync_folder("/state/data")
    store.write("data/perhaps not", [b"x"])
    for seed in range(50):
        after = LocalStore("/state", disk=disk.after_crash(random.Random(seed)))
        assert bytes(after.read("data/kept")) == b"kept" and after.files("data")["perhaps"] == 33
        names.add("perhaps not" in after.files("data"))
        sizes.add(after.files("data")["torn"])
    assert names == {True, False} and len(sizes) > 5
