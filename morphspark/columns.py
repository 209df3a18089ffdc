"""Arrow in and out: what a batch may look like, and the one form in which results come out.

In: `admit` turns whatever the user gave into a table, checks it against the program before anything runs, and
widens the columns that transactions use to one Arrow type per logical type. All of it works on whole columns.

Out: canonical Arrow is one chunk, offset 0, zeros under nulls, and no validity buffer without nulls, so that
equal results are equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import types
from .errors import LimitError, SchemaError
from .program import Program
from .trace import unknown_name
from .types import Type

_NULLS = types.list_of(types.NULL)  # of empty lists only: the elements take their type later
_NO_COLUMN = (pa.ArrowException, OverflowError, TypeError, ValueError)  # what pyarrow raises for a pandas column
RESERVED = ("_status", "_reason", "_epoch", "_ts", "_kind")


@dataclass(frozen=True)
class Batch:
    """An admitted epoch: the user's columns as they came, and the used ones as the engines read them."""

    events: pa.Table  # every column, original types
    used: dict[str, pa.Array]  # one chunk each, canonical types
    types: dict[str, Type]  # of the used columns

    @property
    def rows(self) -> int:
        return self.events.num_rows


def as_table(data: Any) -> pa.Table:
    """A pyarrow table from a table, record batch, pandas frame, or anything that speaks Arrow's stream interface."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "to_records"):
        return pa.table(data)
    try:
        import pandas as pd
    except ImportError:  # pragma: no cover - pandas is a dependency
        pd = None
    if pd is not None and isinstance(data, pd.DataFrame):
        return _table_of_frame(data)
    raise SchemaError(
        f"a batch is a pyarrow.Table, a pyarrow.RecordBatch or a pandas.DataFrame, not a {type(data).__name__}"
    )


def _table_of_frame(frame: Any) -> pa.Table:
    twice = list(dict.fromkeys(frame.columns[frame.columns.duplicated()]))
    if twice:
        raise SchemaError(f"the frame has two columns called {', '.join(map(str, twice))}; rename one")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except _NO_COLUMN as error:
        for name in frame.columns:
            _check_convertible(name, frame[name])
        raise SchemaError(f"the frame can't become a pyarrow.Table: {error}") from error


def _check_convertible(name: Any, column: Any) -> None:
    """Fail on a pandas column that Arrow has no type for, in most cases an object column of several types."""
    try:
        pa.array(column, from_pandas=True)
    except _NO_COLUMN as error:
        first: dict[str, int] = {}  # the first row of each type
        for row, (value, null) in enumerate(zip(column, column.isna(), strict=True)):
            if not null:
                first.setdefault(type(value).__name__, row)
        kinds = list(first)
        if len(kinds) > 1:
            found = f"holds {' and '.join(kinds)} (the first {kinds[1]} is in row {first[kinds[1]]}), expected one type"
        else:
            found = f"is {column.dtype} and can't become an Arrow column: {error}"
        raise SchemaError(
            f"column {name!r} {found}; convert it, frame[{name!r}] = frame[{name!r}].astype(…), or drop it"
        ) from None


def admit(data: Any, program: Program, fixed: Mapping[str, Type], max_rows: int, max_string_bytes: int) -> Batch:
    """Check a batch against the program. `fixed` holds the types known so far; all errors come before any change."""
    table = as_table(data)
    _check_names(table, program)
    if table.num_rows > max_rows:
        raise LimitError(
            f"the epoch has {table.num_rows} rows, more than max_epoch_rows={max_rows}; "
            f"send smaller micro-batches (maxOffsetsPerTrigger, maxFilesPerTrigger) or raise the limit"
        )
    used: dict[str, pa.Array] = {}
    kinds: dict[str, Type] = {}
    for name in program.event_columns:
        column = table.column(name)
        kinds[name] = _column_type(name, column.type, fixed.get(name))
        used[name] = _read(name, column, kinds[name])
        if name in program.order_by and kinds[name] == types.STRING:
            _check_utf8(name, used[name])
        check_strings(name, used[name], kinds[name], max_string_bytes)
    return Batch(table, used, kinds)


def _check_names(table: pa.Table, program: Program) -> None:
    names = table.column_names
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise SchemaError(f"the batch has two columns called {', '.join(twice)}; rename one")
    taken = [name for name in RESERVED if name in names]
    if taken:
        raise SchemaError(f"the batch has a column {taken[0]!r}, which morphspark adds itself; rename or drop it")
    of_events = [one for one in program.transactions if one.trigger is None]
    returned = [name for one in of_events for name, _ in one.returns if name in names]
    if returned:
        raise SchemaError(f"returned column {returned[0]!r} has the name of an event column; rename one of them")
    for name in program.event_columns:
        if name not in names:
            raise SchemaError(unknown_name(name, "the batch", names) + f"; app {program.name!r} uses it")


def _column_type(name: str, arrow: pa.DataType, fixed: Type | None) -> Type:
    found = types.from_arrow(arrow)
    if found is None:
        expected = (
            f"expected {fixed}"
            if fixed
            else (
                "expected bool, int8 to int64, float32, float64, string, timestamp, "
                "decimal(p <= 18, s), or a list of those"
            )
        )
        raise SchemaError(f"column {name!r} is {arrow}, which transactions can't use; {expected}; cast it before")
    if fixed is None or fixed == types.NULL or (fixed == _NULLS and found.element is not None):
        return found
    if found == types.NULL or _fits(found, fixed):
        return fixed
    raise SchemaError(f"column {name!r}: expected {fixed}, got {arrow}; cast it before (types stay as first seen)")


def _fits(found: Type, fixed: Type) -> bool:
    if found == fixed:
        return True
    if found.element is not None and fixed.element is not None:
        return found.element == types.NULL or _fits(found.element, fixed.element)
    both_decimal = found.name == fixed.name == "decimal"
    return both_decimal and found.scale == fixed.scale and found.precision <= fixed.precision


def _read(name: str, column: pa.ChunkedArray, kind: Type) -> pa.Array:
    target = types.to_arrow(kind)
    try:
        if pa.types.is_dictionary(column.type) and kind.element is not None:  # which a cast does not take
            column = pa.chunked_array([decoded(chunk).cast(target) for chunk in column.chunks], target)
        elif pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if column.type != target:
            column = column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"column {name!r}: {column.type} does not fit {kind} exactly: {error}") from None
    return one_chunk(column)


def _check_utf8(name: str, array: pa.Array) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"column {name!r} is not valid Arrow: {error}; strings are UTF-8") from None


def check_strings(name: str, array: pa.Array, kind: Type, max_string_bytes: int) -> None:
    """Fail if a string is longer than the limit."""
    values = array.flatten() if kind.element is not None else array
    if types.STRING not in (kind, kind.element) or len(values) == 0:
        return
    if sum(buffer.size for buffer in values.buffers() if buffer is not None) <= max_string_bytes:
        return  # all of them together are short enough
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    if longest > max_string_bytes:
        raise LimitError(
            f"column {name!r} has a string of {longest} bytes, more than max_string_bytes={max_string_bytes}"
        )


# ----------------------------------------------------------------------------------------------- canonical


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type) and pa.types.is_nested(column.type.value_type):  # concat_arrays fails
        return pa.concat_arrays([decoded(chunk) for chunk in column.chunks] or [pa.array([], column.type.value_type)])
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)


def decoded(column: pa.Array) -> pa.Array:
    """Dictionaries, views and runs as plain values, also inside lists: how a batch was encoded must not show."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return decoded(column.dictionary).take(column.indices)
    if pa.types.is_run_end_encoded(kind):
        return decoded(pc.run_end_decode(column))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return column.cast(pa.string() if pa.types.is_string_view(kind) else pa.binary())
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return decoded(_without_view(column))
    if _is_list(kind):
        child = decoded(_entries(column))
        buffers = column.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
        return pa.Array.from_buffers(
            _list_type(kind, child.type), len(column), buffers, offset=column.offset, children=[child]
        )
    return _struct([decoded(child) for child in column.flatten()], column) if pa.types.is_struct(kind) else column


def canonical(array: pa.Array) -> pa.Array:
    """The same values as canonical Arrow; the array itself where it already is."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, canonical(array.storage))
    if pa.types.is_null(kind):
        return pa.nulls(len(array))
    if _is_canonical(array):
        return trimmed(array)
    array = decoded(array)
    kind = array.type
    if pa.types.is_struct(kind):
        return _struct([canonical(child) for child in array.flatten()], array)
    packed = _packed_offsets(array)
    if packed is not None:
        return pa.Array.from_buffers(kind, len(array), [None, packed], children=[canonical(array.values)])
    # `take` builds the array anew: offset 0, and only what valid slots refer to.
    array = array.take(pa.array(np.arange(len(array), dtype=np.int64)))
    if _is_list(kind):
        buffers = [_validity(array), *array.buffers()[1 : 1 if pa.types.is_fixed_size_list(kind) else 2]]
        return pa.Array.from_buffers(kind, len(array), buffers, children=[canonical(_entries(array))])
    return without_idle_validity(_zeros_under_nulls(array))


def is_plain(kind: pa.DataType) -> bool:
    """Whether values of this type come out as they came in: there is no encoding to be undone."""
    return _is_fixed_width(kind) or kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def filled(events: pa.Array, returned: pa.Array) -> pa.Array:
    """A column of events, null where a trigger fired, with what the firings returned there. Canonical, as both are."""
    if pa.types.is_null(returned.type):
        return events
    return canonical(pc.coalesce(events.cast(returned.type), returned))


def _is_canonical(array: pa.Array) -> bool:
    if array.offset != 0 or array.null_count != 0 or array.type.num_fields != 0:
        return False
    buffers = array.buffers()
    if buffers[0] is not None:
        return False
    return pa.types.is_primitive(array.type) and not pa.types.is_boolean(array.type)


def _packed_offsets(array: pa.Array) -> pa.Buffer | None:
    """The offsets of lists without nulls that have all elements of their child, one behind the other; else None."""
    large = pa.types.is_large_list(array.type)
    if not (large or pa.types.is_list(array.type)) or array.offset or array.null_count or not len(array):
        return None
    offsets = array.buffers()[1].slice(0, (len(array) + 1) * (8 if large else 4))
    numbers = np.frombuffer(offsets, np.int64 if large else np.int32)
    return offsets if numbers[0] == 0 and numbers[-1] == len(array.values) else None


def _validity(array: pa.Array) -> pa.Buffer | None:
    if array.null_count == 0:
        return None
    return pc.cast(array.is_valid(), pa.bool_()).buffers()[1]


def _zeros_under_nulls(array: pa.Array) -> pa.Array:
    if array.null_count == 0 or not _is_fixed_width(array.type):
        return array
    buffers = array.buffers()
    width = array.type.bit_width
    if width % 8:
        zeroed = pc.fill_null(array, False)
        return pa.Array.from_buffers(array.type, len(array), [_validity(array), zeroed.buffers()[1]])
    whole = np.dtype(f"u{width // 8}") if width in (8, 16, 32, 64) else np.dtype((np.void, width // 8))
    data = np.frombuffer(buffers[1], dtype=whole, count=len(array)).copy()
    data[array.is_null().to_numpy(zero_copy_only=False)] = np.zeros(1, whole)[0]
    return pa.Array.from_buffers(array.type, len(array), [_validity(array), pa.py_buffer(data.tobytes())])


def _is_fixed_width(kind: pa.DataType) -> bool:
    kinds = pa.types
    return kinds.is_primitive(kind) or kinds.is_decimal(kind) or kinds.is_fixed_size_binary(kind)


def without_idle_validity(array: pa.Array) -> pa.Array:
    """The same array without the validity buffer that it does not need; shares all others."""
    if array.null_count or array.type.num_fields or (buffers := array.buffers())[0] is None:
        return array
    return pa.Array.from_buffers(array.type, len(array), [None, *buffers[1:]], offset=array.offset)


def trimmed(array: pa.Array) -> pa.Array:
    """The first rows of a longer array, each buffer cut to what they need: what lies behind them must not show."""
    sizes = _buffer_sizes(array)
    buffers = array.buffers()[: len(sizes)]
    if all(buffer is None or buffer.size == size for buffer, size in zip(buffers, sizes, strict=True)):
        return array
    cut = [buffer and buffer.slice(0, size) for buffer, size in zip(buffers, sizes, strict=True)]
    return pa.Array.from_buffers(array.type, len(array), cut, array.null_count)


def _buffer_sizes(array: pa.Array) -> list[int]:
    """Bytes that the buffers of an array need; none for a slice that starts later, or where it is not so simple."""
    kind, rows = array.type, len(array)
    bits = (rows + 7) // 8
    if array.offset:
        return []
    if _is_fixed_width(kind):
        return [bits, (rows * kind.bit_width + 7) // 8]
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (wide or pa.types.is_string(kind) or pa.types.is_binary(kind)) or (offsets := array.buffers()[1]) is None:
        return []
    width = 8 if wide else 4
    end = np.frombuffer(offsets, np.dtype(f"i{width}"))[rows] if offsets.size else 0
    return [bits, (rows + 1) * width if offsets.size else 0, int(end)]


def _is_list(kind: pa.DataType) -> bool:
    kinds = pa.types
    return kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind) or kinds.is_map(kind)


def _entries(array: pa.Array) -> pa.Array:
    """The child of a list, as long as it is: what offsets point into."""
    if not pa.types.is_map(array.type):
        return array.values
    kind = array.type
    fields = [pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)]
    return pa.StructArray.from_arrays([array.keys, array.items], fields=fields)


def _list_type(kind: pa.DataType, child: pa.DataType) -> pa.DataType:
    """The type of a list whose elements were decoded."""
    if pa.types.is_map(kind):
        return pa.map_(child.field(0).type, kind.item_field.with_type(child.field(1).type), kind.keys_sorted)
    field = kind.value_field.with_type(child)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(field, kind.list_size)
    return pa.large_list(field) if pa.types.is_large_list(kind) else pa.list_(field)


def _without_view(array: pa.Array) -> pa.Array:
    """A list view as a list: elements in order, once for each list that has them."""
    large = pa.types.is_large_list_view(array.type)
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64 if large else np.int32)
    flat = pc.list_flatten(array)
    field = array.type.value_field
    kind = pa.large_list(field) if large else pa.list_(field)
    buffers = [_validity(array), pa.py_buffer(offsets.tobytes())]
    return pa.Array.from_buffers(kind, len(array), buffers, children=[flat])


def _struct(children: list[pa.Array], like: pa.StructArray) -> pa.Array:
    fields = [like.type.field(i).with_type(child.type) for i, child in enumerate(children)]
    return pa.Array.from_buffers(pa.struct(fields), len(like), [_validity(like)], children=children)
