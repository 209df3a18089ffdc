"""An ad-hoc transaction between two epochs: one function, one event, given by keyword."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from . import types
from .app import App
from .columns import Batch, admit
from .config import Config
from .errors import SchemaError
from .program import Program, Transaction
from .trace import unknown_name
from .types import Type


@dataclass(frozen=True)
class CallResult:
    """What came of a call: `status` is "committed" or "aborted"; `columns` has what the function returned."""

    status: str
    reason: str | None
    columns: Mapping[str, Any] = field(default_factory=dict)


def call_program(app: App, program: Program, function: Callable[[Any], Any] | str) -> Program:
    """A program of that one transaction, for any event. It has no order: the call comes when it comes."""
    transaction = _transaction(app, program, function)
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
    return known[name] if name in known else app.trace(function)


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
    wanted = None if kind is None or kind == types.NULL else types.to_arrow(kind)
    try:
        return pa.array([value], wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        expected = "a value that Arrow knows" if kind is None else str(kind)
        raise SchemaError(f"{where}: column {name!r}: expected {expected}, got a {type(value).__name__}") from None
