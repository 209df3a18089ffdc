"""For tests, yours and ours: one app on both engines at once, every answer compared byte for byte.

    with both_engines(app) as engines:
        engines.load("accounts", before)
        result = engines.process(events)          # raises if the two engines disagree about anything
        after = engines.table("accounts")         # sorted by key

"Byte for byte" is about canonical Arrow (semantics, section 2): one chunk, offset 0, zeros under nulls, no
validity buffer without nulls. Where both engines raise, the errors must have one type and one message.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .app import App
from .columns import canonical
from .config import Config
from .engine import Engine
from .errors import MorphsparkError
from .native import NativeCore
from .program import TableSpec
from .reference import open_reference

COUNTS = ("epoch", "events", "committed", "aborted", "unmatched", "late", "diverted")


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A way to run a native engine. With a seed one thread plays all workers, in an order drawn from the seed."""

    strategy: str | Mapping[str, str] = "auto"
    threads: int = 1
    punctuation: int | str = "auto"
    seed: int | None = None

    def open(self, app: App, config: Config, path: Any = None) -> Engine:
        config = dataclasses.replace(config, strategy=self.strategy, threads=self.threads, punctuation=self.punctuation)
        if self.seed is None:
            return app.open(path, config)
        one_thread = dataclasses.replace(config, threads=1)
        played = functools.partial(NativeCore, interleaving=(self.seed, self.threads))
        return Engine(app, path, one_thread, make_core=played)


def both_engines(app: App, config: Config | None = None, schedules: Iterable[Schedule] = (Schedule(),)) -> BothEngines:
    """The oracle and, for each schedule, a native engine of this app."""
    config = config or Config()
    engines = {"reference": open_reference(app, config)}
    for schedule in schedules if not os.environ.get("MORPHSPARK_ORACLE_ONLY") else ():
        engines[str(schedule)] = schedule.open(app, config)
    return BothEngines(app, engines)


class BothEngines:
    """Several engines of one app behind the face of one; any difference between them is an AssertionError."""

    def __init__(self, app: App, engines: Mapping[str, Engine]):
        self.app = app
        self.engines = dict(engines)

    def load(self, table: str, data: Any) -> None:
        self._ask(f"load({table!r})", lambda engine: engine.load(table, data))
        self._compare_state()

    def process(self, data: Any) -> pa.Table:
        try:
            result = self._ask("process", lambda engine: engine.process(data), _same_tables)
        except MorphsparkError:
            self._compare_rest()
            raise
        self._compare_rest()
        return result

    def advance(self, ts: Any) -> pa.Table:
        result = self._ask("advance", lambda engine: engine.advance(ts), _same_tables)
        self._compare_rest()
        return result

    def table(self, name: str) -> pa.Table:
        """The committed rows of a table, sorted by key."""
        return self._ask(f"table {name!r}", lambda engine: _sorted_state(engine, name), assert_same)

    @property
    def late(self) -> pa.Table | None:
        return next(iter(self.engines.values())).late

    @property
    def epoch(self) -> int:
        return next(iter(self.engines.values())).epoch

    @property
    def watermark(self) -> Any:
        return next(iter(self.engines.values())).watermark

    def close(self) -> None:
        for engine in self.engines.values():
            engine.close()

    def __enter__(self) -> BothEngines:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _compare_rest(self) -> None:
        self._ask("the late table", lambda engine: engine.late, _same_late)
        self._ask("progress", lambda engine: engine._visible().progress, _same_values)
        self._ask("metrics", _counts, _same_values)
        self._compare_state()

    def _compare_state(self) -> None:
        for spec in self.app.program.tables:
            self.table(spec.name)
        for name, engine in self.engines.items():
            validate = getattr(engine._core, "validate", None)
            if validate is not None and not validate():
                raise AssertionError(f"{name}: the invariants of a structure in the core don't hold")

    def _ask(self, what: str, call: Callable[[Engine], Any], same: Callable[..., None] | None = None) -> Any:
        answers = {name: _answer(call, engine) for name, engine in self.engines.items()}
        (first, (value, error)), *others = answers.items()
        for name, (other, other_error) in others:
            between = f"{what}: {first} and {name} differ"
            if error is not None or other_error is not None:
                _same_values(_error_text(error), _error_text(other_error), between)
            elif same is not None:
                same(value, other, between)
        if error is not None:
            raise error
        return value


def _answer(call: Callable[[Engine], Any], engine: Engine) -> tuple[Any, Exception | None]:
    try:
        return call(engine), None
    except Exception as error:
        return None, error


def _error_text(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {error}"


def _counts(engine: Engine) -> list[Any]:
    return [tuple(record[name] for name in COUNTS) for record in list(engine.metrics)[-1:]]


def _sorted_state(engine: Engine, name: str) -> pa.Table:
    table = engine.table(name).to_arrow()
    check_canonical(table)
    return sorted_table(table, next(one for one in engine.program.tables if one.name == name))


def sorted_table(table: pa.Table, spec: TableSpec) -> pa.Table:
    """Rows of a table by their keys, as canonical Arrow."""
    keys = [part for part, _ in spec.key]
    order = pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys])
    return pa.table({column: canonical_column(table[column].take(order)) for column in table.column_names})


def canonical_column(column: pa.ChunkedArray) -> pa.Array:
    return canonical(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))


# -------------------------------------------------------------------------------------------------- comparing


def _same_values(left: Any, right: Any, what: str) -> None:
    if left != right:
        raise AssertionError(f"{what}:\n  {left}\n  {right}")


def _same_late(left: pa.Table | None, right: pa.Table | None, what: str) -> None:
    if left is not None and right is not None:
        _same_tables(left, right, what)
    else:
        _same_values(left, right, what)


def _same_tables(left: pa.Table, right: pa.Table, what: str) -> None:
    check_canonical(left)
    check_canonical(right)
    assert_same(left, right, what)


def assert_same(left: pa.Table, right: pa.Table, what: str = "the tables differ") -> None:
    """Fail unless two canonical tables have one schema and the same bytes; show the first difference."""
    if left.schema != right.schema:
        raise AssertionError(f"{what} in their schemas:\n{left.schema}\n---\n{right.schema}")
    _same_values(left.num_rows, right.num_rows, f"{what} in the number of rows")
    if _bytes(left) != _bytes(right):
        name = next(one for one in left.column_names if _bytes(left.select([one])) != _bytes(right.select([one])))
        raise AssertionError(f"{what} in column {name!r}: {_first_difference(left, right, name)}")


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _first_difference(left: pa.Table, right: pa.Table, name: str) -> str:
    for row, (a, b) in enumerate(zip(left[name], right[name], strict=True)):
        if repr(a.as_py()) != repr(b.as_py()):
            return f"row {row}\n  {left.slice(row, 1).to_pylist()[0]}\n  {right.slice(row, 1).to_pylist()[0]}"
    return f"equal values, other bytes:\n  {_buffers(left[name])}\n  {_buffers(right[name])}"


def _buffers(column: pa.ChunkedArray) -> list[str | None]:
    return [None if one is None else one.to_pybytes().hex() for one in column.chunk(0).buffers()]


# -------------------------------------------------------------------------------------------------- canonical


def check_canonical(table: pa.Table) -> None:
    """Fail unless every column is canonical Arrow."""
    for name in table.column_names:
        column = table[name]
        if column.num_chunks > 1:
            raise AssertionError(f"column {name!r} has {column.num_chunks} chunks")
        for chunk in column.chunks:
            _check_array(chunk, f"column {name!r}")


def _check_array(array: pa.Array, what: str) -> None:
    array.validate(full=True)
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        _check_array(array.storage, what)
        return
    problems = {
        "is dictionary-encoded": pa.types.is_dictionary(kind),
        f"has offset {array.offset}": array.offset != 0,
        "has a validity buffer but no nulls": array.null_count == 0 and array.buffers()[0] is not None,
        "has something under its nulls": _has_ghosts(array),
    }
    for problem, there in problems.items():
        if there and not pa.types.is_null(kind):
            raise AssertionError(f"{what} ({kind}) {problem}: {array}")
    for index, child in enumerate(_children(array)):
        _check_array(child, f"{what}, child {index}")


def _children(array: pa.Array) -> list[pa.Array]:
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [array.values]
    if pa.types.is_struct(kind):
        return [array.field(index) for index in range(kind.num_fields)]
    return [array.keys, array.items] if pa.types.is_map(kind) else []


def _offset_bytes(kind: pa.DataType) -> int:
    kinds = pa.types
    if kinds.is_string(kind) or kinds.is_binary(kind) or kinds.is_list(kind) or kinds.is_map(kind):
        return 4
    large = kinds.is_large_string(kind) or kinds.is_large_binary(kind) or kinds.is_large_list(kind)
    return 8 if large else 0


def _has_ghosts(array: pa.Array) -> bool:
    """Whether a null slot holds anything but zeros, or offsets don't start at 0."""
    kind, buffers = array.type, array.buffers()
    if len(array) == 0 or pa.types.is_null(kind):
        return False
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    if width := _offset_bytes(kind):
        offsets = np.frombuffer(buffers[1], np.dtype(f"i{width}"))[: len(array) + 1]
        return bool(offsets[0] != 0 or np.diff(offsets)[nulls].any())
    if pa.types.is_boolean(kind):
        bits = np.unpackbits(np.frombuffer(buffers[1], np.uint8), bitorder="little")[: len(array)]
        return bool(bits[nulls].any())
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        width = kind.bit_width // 8
        values = np.frombuffer(buffers[1], np.uint8)[: len(array) * width].reshape(len(array), width)
        return bool(values[nulls].any())
    return False
