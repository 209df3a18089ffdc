"""What durability is made of: the rows an epoch changed, rows applied, and snapshots read while epochs run."""

import dataclasses
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from strategies import stories

import morphspark as ms
from morphspark.core import check_rows, rows_schema, version_columns
from morphspark.engine import Engine
from morphspark.native import NativeCore
from morphspark.reference import ReferenceCore
from morphspark.testing import assert_same, both_engines, canonical_column, check_canonical

CORES = [ReferenceCore, NativeCore]
EXAMPLES = 60


def by_key(table, spec):
    """Rows in one order, as canonical Arrow."""
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name, _ in spec.key])
    return pa.table({name: canonical_column(table[name].take(order)) for name in table.column_names})


def without(table, *names):
    return table.drop_columns([name for name in names if name in table.column_names])


def newest(table, spec):
    """Of versions the rows: the last one of each key."""
    keys = [name for name, _ in spec.key]
    last = {tuple(row[key] for key in keys): place for place, row in enumerate(table.select(keys).to_pylist())}
    return without(table.take(pa.array(sorted(last.values()), pa.int64())), *version_columns(spec))


def versions_of(chunks, spec):
    """By key, every version of a snapshot."""
    found = {}
    for row in (one for rows in chunks for one in rows.to_pylist()):
        if row["_sequence"]:
            found.setdefault(tuple(row[key] for key, _ in spec.key), []).append(repr(row))
    return found


def image(core, specs):
    """All versions of all tables that keep some, in a core that has no snapshot open."""
    core.begin_snapshot()
    chunks = {spec.name: [] for spec in specs}
    while (chunk := core.snapshot_chunk(1000)) is not None:
        chunks[chunk[0].name].append(chunk[1])
    core.end_snapshot()
    return {spec.name: versions_of(chunks[spec.name], spec) for spec in specs if spec.kept is not None}


def state(core, specs):
    return {spec.name: by_key(core.tables([spec])[0], spec) for spec in specs}


def assert_same_state(left, right, what):
    assert left.keys() == right.keys()
    for name in left:
        assert_same(left[name], right[name], f"{what}: table {name!r}")


class Recorded:
    """A core that checks itself: a mirror lives from its changes alone, and snapshots are read as epochs go by.

    Stands between an engine and its core, and lets everything else pass.
    """

    def __init__(self, core, specs, config, seed):
        self.core, self.specs = core, specs
        self.mirror = (NativeCore if isinstance(core, NativeCore) else ReferenceCore)(specs, config)
        self.chance = random.Random(seed)
        self.seen = []  # changes of each committed epoch, by table
        self.expected = None  # what the open snapshot must hold
        self.chunks = {}
        self.snapshots = 0

    def __getattr__(self, name):
        return getattr(self.core, name)

    def load(self, spec, rows):
        self._read_some()
        self.core.load(spec, rows)
        self.mirror.apply(spec, rows)
        self._compare_mirror()

    def commit(self):
        changes = {spec.name: self.core.changes(spec) for spec in self.specs}
        self.core.commit()
        for spec in self.specs:
            rows = changes[spec.name]
            assert rows.schema == rows_schema(spec, deleted=True, versions=True)
            check_rows(spec, rows)
            check_canonical(pa.Table.from_batches([rows]))
            self.mirror.apply(spec, rows)
            if self.chance.random() < 0.3 and spec.kept is None:
                self.mirror.apply(spec, rows)  # again: nothing changes
        tables = {name: without(pa.Table.from_batches([rows]), "_sequence") for name, rows in changes.items()}
        self.seen.append({spec.name: by_key(tables[spec.name], spec) for spec in self.specs})
        self._compare_mirror()
        self._read_some()

    def finish(self):
        """Read what is left of an open snapshot."""
        while self.expected is not None:
            self._read_some()

    def _compare_mirror(self):
        assert_same_state(state(self.core, self.specs), state(self.mirror, self.specs), "a mirror of the changes")

    def _read_some(self):
        if self.expected is None:
            self.core.begin_snapshot()
            self.expected, self.chunks = state(self.core, self.specs), {}
            self.versions = image(self.mirror, self.specs)
        for _ in range(self.chance.randint(0, 4)):
            if self.expected is not None:
                self._read_chunk(self.chance.choice((1, 2, 5, 1000)))

    def _read_chunk(self, max_rows):
        chunk = self.core.snapshot_chunk(max_rows)
        if chunk is not None:
            spec, rows = chunk
            assert rows.num_rows > 0 and (rows.num_rows <= max_rows or spec.kept is not None)
            check_canonical(pa.Table.from_batches([rows]))
            self.chunks.setdefault(spec.name, []).append(rows)
            return
        assert self.core.snapshot_chunk(max_rows) is None
        for spec in self.specs:
            chunks = self.chunks.get(spec.name, [])
            rows = newest(pa.Table.from_batches(chunks, rows_schema(spec, versions=True)), spec)
            if spec.kept is not None:  # a mirror collects nothing, so it has all there are and older ones
                for key, found in versions_of(chunks, spec).items():
                    assert found == self.versions[spec.name][key][-len(found) :], (spec.name, key)
            assert_same(by_key(rows, spec), self.expected[spec.name], f"a snapshot of table {spec.name!r}")
        self.core.end_snapshot()
        self.expected = None
        self.snapshots += 1


def record(engines, seed=1):
    """Let every engine's core record itself; a list of the recorders."""
    recorders = []
    for engine in engines.engines.values():
        engine._core = Recorded(engine._core, engine.program.tables, engine.config, seed)
        recorders.append(engine._core)
    return recorders


def compare(recorders):
    """All cores have seen the same changes."""
    first, *others = recorders
    for one in recorders:
        one.finish()
    for other in others:
        assert len(first.seen) == len(other.seen)
        for epoch, (left, right) in enumerate(zip(first.seen, other.seen, strict=True)):
            assert_same_state(left, right, f"changes of epoch {epoch}")


# ------------------------------------------------------------------------------------------------ generated apps

told = {"epochs": 0, "snapshots": 0}


@settings(max_examples=EXAMPLES)
@given(stories())
def test_changes_and_snapshots_of_generated_apps(story):
    with both_engines(story.build(), story.config, story.schedules[:1]) as engines:
        recorders = record(engines, seed=told["epochs"])
        for name, table in story.initial.items():
            engines.load(name, table)
        for one in story.epochs:
            try:
                engines.process(one.table)
            except ms.MorphsparkError:
                continue  # rolled back
        compare(recorders)
        told["epochs"] += len(recorders[0].seen)
        told["snapshots"] += recorders[0].snapshots


def test_enough_was_told():
    """Runs after the generated apps; says nothing if they were not selected."""
    assert not told["epochs"] or (told["epochs"] > EXAMPLES and told["snapshots"] > EXAMPLES)


# --------------------------------------------------------------------------------------------- many epochs, by hand


@pytest.fixture
def notes():
    """Composite keys, long and short; strings; rows that come and go."""
    app = ms.App("notes", order_by="ts")
    t = app.table("notes", key={"book": "string", "page": "int64"}, columns={"text": "string", "n": "int64"})
    names = app.table("names", key="string", columns={"text": "string"}, default={"text": "nobody"})

    @app.on(do="put")
    def put(e):
        t.insert((e.book, e.page), text=e.text, n=1)
        names[e.text].text += "+"

    @app.on(do="change")
    def change(e):
        t[e.book, e.page].text = e.text
        t[e.book, e.page].n += 1
        names[e.book].text = e.text
        ms.require(e.ok, "not ok")

    @app.on(do="drop")
    def drop(e):
        t.delete((e.book, e.page))
        names.delete(e.book)

    @app.on(do="grow")
    def grow(e):
        names[e.book].text += names[e.book].text + e.text

    return app


def note_events(rng, rows, first):
    texts = ["", "short", "x" * 19, "y" * 20, "z" * 21, "é" * 300, "w" * 3000]
    return pa.table(
        {
            "ts": np.arange(first, first + rows),
            "do": rng.choice(["put", "change", "drop"], rows, p=[0.4, 0.35, 0.25]),
            "book": pa.array([f"book {n}" * (1 + n % 5) for n in rng.integers(0, 40, rows)], pa.string()),
            "page": rng.integers(0, 4, rows),
            "text": rng.choice(texts, rows),
            "ok": rng.random(rows) < 0.8,
        }
    )


def test_changes_and_snapshots_over_many_epochs(notes, opened):
    """Several megabytes of text pass through, slots are used again, and some epochs fail in the middle."""
    rng = np.random.default_rng(5)
    engines = opened(notes, ms.Config(max_string_bytes=8000), threads=(1, 2))
    recorders = record(engines)
    for number in range(40):
        events = note_events(rng, int(rng.choice([0, 1, 30, 300])), number * 1000)
        if number % 5 == 4:
            last = events.num_rows + number * 1000
            row = {"ts": [last], "do": ["grow"], "book": ["book 1"], "page": [1], "text": ["g" * 8000], "ok": [True]}
            with pytest.raises(ms.LimitError):
                engines.process(pa.concat_tables([events, pa.table(row)]))
        else:
            engines.process(events)
    compare(recorders)
    assert all(one.snapshots > 2 for one in recorders)


# ---------------------------------------------------------------------------------------- the contract, on each core


ALL_KINDS = {
    "b": "bool",
    "i": "int64",
    "f": "float64",
    "s": "string",
    "t": "timestamp",
    "d": "decimal(18, 4)",
}


def all_kinds_app():
    app = ms.App("kinds")
    t = app.table("t", key={"k": "int64", "name": "string"}, columns=ALL_KINDS)
    other = app.table("other", key="int64", columns={"v": "int64"}, default={"v": 0})

    @app.on(do="put")
    def put(e):
        t.insert((e.k, e.name), b=e.b, i=e.i, f=e.f, s=e.s, t=e.t, d=e.d)

    @app.on(do="drop")
    def drop(e):
        t.delete((e.k, e.name))

    @app.on(do="both")
    def both(e):
        t.insert((e.k, e.name), b=e.b, i=e.i, f=e.f, s=e.s, t=e.t, d=e.d)
        t.delete((e.k, e.name))
        other[e.k].v += 0

    return app


def rows_of(spec, keys, deleted=None):
    """A row for each key, its values made of the key."""
    schema = rows_schema(spec, deleted is not None)
    columns = {
        "k": keys,
        "name": [f"name {key}" for key in keys],
        "b": [key % 2 == 0 for key in keys],
        "i": [-key for key in keys],
        "f": [key / 7 for key in keys],
        "s": ["s" * (key % 50) for key in keys],
        "t": [key * 1000 for key in keys],
        "d": [f"{key}.0625" for key in keys],
        "_deleted": deleted,
    }
    arrays = []
    for field in schema:
        values = columns[field.name]
        arrays.append(pa.array(values).cast(field.type) if field.name in "td" else pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.fixture(params=CORES, ids=lambda one: one.__name__)
def core(request):
    app = all_kinds_app()
    config = ms.Config(threads=2)
    made = request.param(app.program.tables, config)
    with Engine(app, None, config, make_core=lambda *_: made) as engine:
        yield Opened(engine, made, *app.program.tables)


@dataclasses.dataclass
class Opened:
    engine: Engine
    core: object
    t: object
    other: object

    def execute(self, *does):
        """Run an epoch and leave it open; each of `does` is (do, key)."""
        table = pa.Table.from_batches([rows_of(self.t, [key for _, key in does])])
        table = table.append_column("do", pa.array([do for do, _ in does], pa.string()))
        commit, self.core.commit = self.core.commit, Left.raise_it
        try:
            with pytest.raises(Left):
                rollback, self.core.rollback = self.core.rollback, lambda: None
                self.engine.process(table)
        finally:
            self.core.commit, self.core.rollback = commit, rollback

    def state(self):
        return by_key(self.core.tables([self.t])[0], self.t)

    def expect(self, keys):
        assert_same(self.state(), by_key(pa.Table.from_batches([rows_of(self.t, keys)]), self.t))

    def snapshot(self, max_rows=3):
        chunks = []
        while (chunk := self.core.snapshot_chunk(max_rows)) is not None:
            assert chunk[0] is self.t
            chunks.append(chunk[1])
        return by_key(pa.Table.from_batches(chunks, rows_schema(self.t)), self.t)


class Left(Exception):
    """Leaves an executed epoch as it is."""

    @classmethod
    def raise_it(cls):
        raise cls


def test_what_counts_as_changed(core):
    core.core.apply(core.t, rows_of(core.t, range(10)))
    core.execute(("put", 20), ("drop", 3), ("drop", 50), ("both", 30), ("drop", 4), ("put", 4), ("put", 5))
    changes = by_key(pa.Table.from_batches([core.core.changes(core.t)]), core.t)
    # 50 was never there, 30 only inside the epoch, and the put of 5 was aborted.
    assert changes.select(["k", "_deleted"]).to_pylist() == [
        {"k": 3, "_deleted": True},
        {"k": 4, "_deleted": False},
        {"k": 20, "_deleted": False},
    ]
    assert changes.slice(0, 1).drop_columns(["t", "_deleted"]).to_pylist() == [
        {"k": 3, "name": "name 3", "b": False, "i": 0, "f": 0.0, "s": "", "d": 0}
    ]
    assert_same(
        changes.slice(1).combine_chunks().drop_columns("_deleted"), pa.Table.from_batches([rows_of(core.t, [4, 20])])
    )
    # Written and equal again: changed all the same.
    assert core.core.changes(core.other).to_pylist() == [{"key": 30, "v": 0, "_deleted": False}]
    core.core.commit()
    core.expect([0, 1, 2, 4, 5, 6, 7, 8, 9, 20])
    core.execute(("drop", 50))
    assert core.core.changes(core.t).num_rows == 0
    core.core.rollback()


def test_rows_are_applied(core):
    core.core.apply(core.t, rows_of(core.t, range(100)))
    core.expect(range(100))
    core.core.apply(core.t, rows_of(core.t, range(1000, 1003)).slice(1))
    core.core.apply(core.t, rows_of(core.t, [1001, 5, 7000, 6], [True, True, True, False]))
    core.expect([*range(5), *range(6, 100), 1002])
    # The last row of a key counts.
    core.core.apply(core.t, rows_of(core.t, [1, 1, 2, 2, 8000, 8000, 9000, 9000], [True, False, False, True] * 2))
    core.expect([0, 1, 3, 4, *range(6, 100), 1002, 8000])
    core.core.apply(core.t, rows_of(core.t, []))
    core.core.apply(core.t, rows_of(core.t, [*range(200), 1002, 8000], [True] * 202))
    core.expect([])
    assert core.core.state_size()[0] == 0


def test_rows_that_can_not_be_applied(core):
    good = rows_of(core.t, [1, 2, 3], [False] * 3)
    core.core.apply(core.t, good)
    before = core.state()
    nulls = good.set_column(5, "s", pa.array(["a", None, "b"]))
    other = good.set_column(3, "i", pa.array([1, 2, 3], pa.int32()))
    with pytest.raises(ms.SchemaError, match=r"apply\('t'\): column 's' has 1 null"):
        core.core.apply(core.t, nulls)
    with pytest.raises(ms.SchemaError, match="column 'i': expected int64, got int32"):
        core.core.apply(core.t, other)
    with pytest.raises(ms.SchemaError, match="expected the columns k, name, b"):
        core.core.apply(core.t, good.select(["k", "name", "_deleted"]))
    with pytest.raises(ms.SchemaError, match="column '_deleted' has 3 null"):
        core.core.apply(core.t, good.set_column(8, "_deleted", pa.nulls(3, pa.bool_())))
    assert_same(core.state(), before)


def test_a_snapshot_sees_nothing_later(core):
    core.core.apply(core.t, rows_of(core.t, range(10)))
    before = core.state()
    core.core.begin_snapshot()
    core.execute(*(("drop", key) for key in range(5)), ("put", 100))
    core.core.commit()
    core.execute(*(("put", key) for key in range(20, 40)), ("drop", 9))
    core.core.rollback()
    core.core.apply(core.t, rows_of(core.t, [7, 8, 60, 61, 62], [True, True, False, False, False]))
    core.core.load(core.t, rows_of(core.t, [70, 71]))
    assert_same(core.snapshot(), before)
    core.core.end_snapshot()
    core.expect([5, 6, 9, 60, 61, 62, 70, 71, 100])
    core.core.begin_snapshot()
    core.core.end_snapshot()  # not read
    core.core.end_snapshot()


def test_a_snapshot_of_nothing(core):
    core.core.begin_snapshot()
    core.core.apply(core.t, rows_of(core.t, [1]))
    assert core.core.snapshot_chunk(10) is None
    core.core.end_snapshot()


def test_calls_at_the_wrong_time(core):
    def refused(call, *args):
        with pytest.raises(RuntimeError):
            call(*args)

    core.core.apply(core.t, rows_of(core.t, range(10)))
    refused(core.core.changes, core.t)
    refused(core.core.snapshot_chunk, 5)
    core.core.begin_snapshot()
    refused(core.core.begin_snapshot)
    refused(core.core.snapshot_chunk, 0)
    core.execute(("put", 20))
    refused(core.core.apply, core.t, rows_of(core.t, [1]))
    refused(core.core.snapshot_chunk, 5)
    core.core.end_snapshot()
    refused(core.core.begin_snapshot)
    core.core.rollback()
    core.expect(range(10))
