"""A program with its types: what is known once the event columns are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from . import callee, infer, types
from .app import check_on_type, check_order_type
from .errors import SchemaError
from .program import Column, Const, Element, Operand, Program, Ref, Step, TableSpec, Transaction
from .types import Type
from .window import check_units, firing_columns, window_of

_COLUMNS_SHOWN = 8


@dataclass(frozen=True)
class BoundTransaction:
    transaction: Transaction
    events: Mapping[str, Type]  # or what a firing has in their place
    types: list[Type]  # of each step's result
    accumulated: dict[int, Type]  # a reduction's begin → the type of the values it takes in

    def type_of(self, operand: Operand) -> Type:
        if isinstance(operand, Ref):
            return self.types[operand.step]
        if isinstance(operand, Column):
            return self.events[operand.name]
        if isinstance(operand, Const):
            return operand.type
        listed = self.type_of(self.transaction.steps[operand.loop].args[operand.position])
        return listed.element or types.NULL


@dataclass(frozen=True)
class BoundProgram:
    program: Program
    events: Mapping[str, Type]
    transactions: tuple[BoundTransaction, ...]
    returns: Mapping[str, Type]  # every returned column, in order of first definition

    @property
    def clock(self) -> Type | None:
        """The type of the first order column."""
        return self.events[self.program.order_by[0]] if self.program.order_by else None


def bind(program: Program, events: Mapping[str, Type]) -> BoundProgram:
    """Give every step its type, or say which line does not fit the columns that came."""
    for column in program.order_by:
        check_order_type(column, events[column])
    bound = tuple(_bind_transaction(program, one, events) for one in program.transactions)
    return BoundProgram(program, events, bound, _returned_columns(bound, events))


def _bind_transaction(program: Program, transaction: Transaction, events: Mapping[str, Type]) -> BoundTransaction:
    for column, values in transaction.on:
        for value in values:
            check_on_type(column, events[column], value)
    tables = {table.name: table for table in program.tables}
    clock = events[program.order_by[0]] if program.order_by else None
    if transaction.trigger is not None:
        events = firing_columns(transaction.trigger, tables, clock or types.NULL)
    bound = BoundTransaction(transaction, events, [], {})
    try:
        check_units(transaction, tables, clock if program.order_by else types.UNKNOWN)
    except infer.Mismatch as error:
        raise SchemaError(str(error)) from None
    for step in transaction.steps:
        try:
            bound.types.append(_step_type(program, step, bound))
        except infer.Mismatch as error:
            where = f"{transaction.name} ({step.source or 'program'})"
            raise SchemaError(f"{where}: {error}{_columns_in(step, bound)}") from None
    return bound


def _columns_in(step: Step, bound: BoundTransaction) -> str:
    """Which event columns the step depends on, and what they are: one of them is what the user has to change."""
    steps, found, open_operands, seen = bound.transaction.steps, {}, list(step.args), set()
    while open_operands:
        operand = open_operands.pop(0)
        if operand in seen:
            continue
        seen.add(operand)
        if isinstance(operand, Column):
            found[operand.name] = bound.events[operand.name]
        elif isinstance(operand, Element):
            open_operands.append(steps[operand.loop].args[operand.position])
        elif isinstance(operand, Ref):
            open_operands.extend(steps[operand.step].args)
    shown = list(found.items())[:_COLUMNS_SHOWN]
    gaps = "; pandas turns integers with gaps into float64: use its Int64" if types.FLOAT64 in found.values() else ""
    return "".join(f"; column {name!r} is {kind}" for name, kind in shown) + gaps


def _step_type(program: Program, step: Step, bound: BoundTransaction) -> Type:
    given = [bound.type_of(arg) for arg in step.args]
    if step.op == "row":
        return _check_row(program.table(step.table), given)
    if step.op == "choose":
        return _check_choice(program.table(step.table), step, given)
    if step.op == "read":
        return _column_types(program.table(step.table), step.columns)[0]
    if step.op in ("write", "insert"):
        return _check_stored(program.table(step.table), step, given[1:])
    if step.op == "each":
        return _check_lists(step, given)
    if step.op in ("require", "when"):
        infer.check_condition(given[0], f"ms.{step.op}")
        return types.BOOL
    if step.op == "accumulate":
        begin = step.args[1].step  # type: ignore[union-attr]
        so_far = bound.accumulated.get(begin, types.NULL)
        bound.accumulated[begin] = infer.unify([so_far, given[0]], f"the values of ms.{step.text}")
        return types.NULL
    if step.op == "reduce":
        begin = step.args[0].step  # type: ignore[union-attr]
        return infer.reduction_type(step.text, bound.accumulated.get(begin, types.NULL))
    if step.op == "window":
        return infer.window_type(window_of(step.text)[0], _column_types(program.table(step.table), step.columns)[0])
    if step.op == "rows":
        return types.ROW
    if step.op == "exists":
        return types.BOOL
    if step.op == "call":
        function = bound.transaction.function_of(step)
        callee.check_call(function, given)
        return function.results[0]
    if step.op == "result":
        return bound.transaction.function_of(step).results[int(step.text)]
    if step.op in ("begin", "end", "delete", "collect"):
        return types.NULL
    return infer.result_type(step.op, given)


def _check_row(table: TableSpec, given: list[Type]) -> Type:
    for kind, (name, declared) in zip(given, table.key, strict=True):
        infer.check_key(kind, declared, f"the key of {table.name!r} ({name})")
    return types.ROW


def _check_choice(table: TableSpec, step: Step, given: list[Type]) -> Type:
    parts = len(table.key)
    for operand, kind in zip(step.args[parts:], given[parts:], strict=True):
        if isinstance(operand, Column):
            infer.check_candidates(kind, table)
    return _check_row(table, given[:parts])


def _check_stored(table: TableSpec, step: Step, given: list[Type]) -> Type:
    for kind, name, column in zip(given, step.columns, _column_types(table, step.columns), strict=True):
        infer.check_assignable(kind, column, f"{table.name}.{name}")
    return types.NULL


def _check_lists(step: Step, given: list[Type]) -> Type:
    for kind in given:
        if kind.element is None and kind != types.NULL:
            raise infer.Mismatch(f"ms.each takes list columns, not {kind}")
    return types.NULL


def _column_types(table: TableSpec, names: tuple[str, ...]) -> list[Type]:
    return [table.columns[table.column_index(name)][1] for name in names]


def check_passing(bound: BoundProgram, events: pa.Schema) -> None:
    """Columns that no transaction uses may still have the name of one that a trigger returns."""
    for one in bound.transactions:
        for name, operand in one.transaction.returns:
            if name in events.names and name not in bound.events:
                arrow = events.field(name).type
                _check_shared(one.transaction, name, one.type_of(operand), types.from_arrow(arrow) or arrow)


def _check_shared(transaction: Transaction, name: str, kind: Type, of_events: Type | pa.DataType | None) -> None:
    """Events' columns are null in the row of a firing, so a trigger may fill one of them, with values of its type."""
    if of_events is None:
        return
    if transaction.trigger is None:
        raise SchemaError(f"{transaction.name}: returned column {name!r} has the name of an event column; rename it")
    if kind != of_events and types.NULL not in (kind, of_events):
        raise SchemaError(
            f"{transaction.name}: returned column {name!r} is {kind}, and the events' column of this name is "
            f"{of_events}: a trigger fills a column of its own type; rename one of them"
        )


def _returned_columns(bound: tuple[BoundTransaction, ...], events: Mapping[str, Type]) -> dict[str, Type]:
    returned: dict[str, Type] = {}
    for one in bound:
        for name, operand in one.transaction.returns:
            kind = one.type_of(operand)
            if kind.element is not None or kind == types.ROW:
                raise SchemaError(f"{one.transaction.name}: returned column {name!r} can't be {kind}")
            _check_shared(one.transaction, name, kind, events.get(name))
            try:
                returned[name] = infer.unify([returned.get(name, types.NULL), kind], f"the values of {name!r}")
            except infer.Mismatch as error:
                raise SchemaError(f"{one.transaction.name}: returned column {name!r}: {error}") from None
    return returned
