"""What happens between two epochs: an ad-hoc transaction (one function, one event, given by keyword), or only time."""

from __future__ import annotations

import datetime
import decimal
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from . import types
from .app import App
from .columns import Batch, admit
from .config import Config
from .errors import ConfigError, SchemaError
from .expr import microseconds
from .program import Program, Transaction
from .trace import unknown_name
from .types import Type
from .window import check_kept

_PYTHON = {
    "bool": bool,
    "int64": int,
    "float64": float | int,
    "string": str,
    "timestamp": datetime.datetime,
    "decimal": decimal.Decimal | int,
    "null": type(None),
}


@dataclass(frozen=True)
class CallResult:
    """What came of a call: `status` is "committed" or "aborted"; `columns` has what the function returned."""

    status: str
    reason: str | None
    columns: Mapping[str, Any] = field(default_factory=dict)


def call_program(app: App, program: Program, function: Callable[[Any], Any] | str) -> Program:
    """A program of that one transaction, for any event. It has no order: the call comes when it comes."""
    transaction = _transaction(app, program, function)
    if transaction.trigger is not None:
        raise SchemaError(f"{transaction.name} is a trigger: time starts it, not a call; engine.advance(ts) moves time")
    return Program(program.name, (), program.seed, program.tables, (replace(transaction, on=()),))


def _transaction(app: App, program: Program, function: Callable[[Any], Any] | str) -> Transaction:
    known = {one.name: one for one in program.transactions}
    if isinstance(function, str):
        if function not in known:
            raise SchemaError(f"app {app.name!r} has no transaction {function!r} (it has {', '.join(known) or 'none'})")
        return known[function]
    if not callable(function):
        raise SchemaError(f"call(…): expected a function or the name of a transaction, got a {type(function).__name__}")
    name = app.transaction_of(function)
    if name in known:
        return known[name]
    traced = app.trace(function)
    check_kept(traced, {table.name: table for table in program.tables})
    return traced


def call_batch(program: Program, columns: Mapping[str, Any], known: Mapping[str, Type], config: Config) -> Batch:
    """The one event, with the types that the stream's columns have."""
    (transaction,) = program.transactions
    where, used = f"call({transaction.name})", program.event_columns
    for name in columns:
        if name not in used:
            raise SchemaError(unknown_name(name, where, used))
    missing = [name for name in used if name not in columns]
    if missing:
        raise SchemaError(f"{where}: {', '.join(missing)} missing; {transaction.name} uses {', '.join(used)}")
    arrays = {name: _column(where, name, value, known.get(name)) for name, value in columns.items()}
    # A transaction that uses no column has one event all the same.
    table = pa.table(arrays) if arrays else pa.table({"none": pa.nulls(1)})
    return admit(table, program, known, config.max_epoch_rows, config.max_string_bytes)


def _column(where: str, name: str, value: Any, kind: Type | None) -> pa.Array:
    value = value.tolist() if hasattr(value, "tolist") else value  # of numpy
    typed = kind is not None and kind != types.NULL
    try:
        if not typed or _fits(value, kind):
            return pa.array([value], types.to_arrow(kind) if typed else None)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    expected = str(kind) if typed else "a value that Arrow knows"
    raise SchemaError(f"{where}: column {name!r}: expected {expected}, got a {type(value).__name__}")


def _fits(value: Any, kind: Type) -> bool:
    """Whether a value can be one of a type without loss; pa.array alone would cut 0.5 to 0."""
    if value is None:
        return True
    if kind.element is not None:
        return isinstance(value, list | tuple) and all(_fits(one, kind.element) for one in value)
    return isinstance(value, _PYTHON[kind.name]) and (kind == types.BOOL or not isinstance(value, bool))


def idle_batch(program: Program, known: Mapping[str, Type]) -> Batch:
    """No event, in the columns that are known so far."""
    if not program.order_by:
        raise ConfigError("advance(ts): the app has no order_by, so it knows no time")
    kinds = {name: known.get(name, types.NULL) for name in program.event_columns}
    columns = {name: pa.array([], types.to_arrow(kind)) for name, kind in kinds.items()}
    return Batch(pa.table(columns), columns, kinds)


def moment_of(ts: Any, clock: Type | None) -> int:
    """A point in time as the order column counts."""
    if isinstance(ts, datetime.datetime) and clock in (types.TIMESTAMP, types.NULL):
        return microseconds(ts)
    if not isinstance(ts, bool) and hasattr(ts, "__index__") and clock in (types.INT64, types.TIMESTAMP, types.NULL):
        if -(2**63) <= operator.index(ts) < 2**63:
            return operator.index(ts)
        raise ConfigError(f"advance({ts!r}): beyond what an int64 order column can say")
    wanted = "a datetime, or microseconds since 1970" if clock == types.TIMESTAMP else "a whole number"
    if clock not in (types.INT64, types.TIMESTAMP, types.NULL):
        raise ConfigError(f"advance(ts): the first order column is {clock}, which does not tell how much time passes")
    raise ConfigError(f"advance({ts!r}): the first order column is {clock}; expected {wanted}")
