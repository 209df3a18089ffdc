"""Windows as a transaction sees them: `speeds[k].over("5 min").speed.mean()`, `ms.window([…], "5 min")`; triggers' `w`.

A window reads versions that earlier transactions left, never this one's own writes. Over several rows it is one
window: a row that is named twice is in it once.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from . import infer, trace, types
from .errors import TraceError
from .expr import Method, Traced, Value, refuses_operators
from .program import Element, Ref, TableSpec, Transaction
from .spans import Kept, Span, SpanError, Trigger, check_clock, kept, parse_rows, parse_span
from .trace import Row, Scope, Tracer, current_tracer, trace_error, unknown_name
from .types import Type
from .udf import Function

START, END, KEY = "w.start", "w.end", "w.key"  # what a firing has in place of an event's columns


# ------------------------------------------------------------------------------------------------- windows


@refuses_operators
class Window(Traced):
    """Versions of rows; a column of it has the aggregates."""

    __slots__ = ("_operands", "_span", "_table", "_tracer")

    def __init__(self, tracer: Tracer, table: TableSpec, operands: tuple[Value, ...], span: Span):
        self._tracer, self._table, self._operands, self._span = tracer, table, operands, span

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__:
            raise trace_error(f"a window is only read; write to the row: {self._table.name}[…].{name} = …")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> WindowColumn:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> WindowColumn:
        for column, kind in self._table.columns:
            if column == name:
                return WindowColumn(self, name, kind)
        names = (column for column, _ in self._table.columns)
        hint = f"; name a column first: .over(…).{self._table.columns[0][0]}.{name}()" if name in AGGREGATES else ""
        raise trace_error(unknown_name(name, f"table {self._table.name!r}", names) + hint)

    def _not_a_value(self) -> NoReturn:
        column = self._table.columns[0][0]
        raise trace_error(f"a window is not a value; name a column and an aggregate: .over(…).{column}.mean()")

    def _refuse(self, what: str) -> NoReturn:
        self._not_a_value()


AGGREGATES = infer.WINDOW_AGGREGATES


@refuses_operators
class WindowColumn(Traced):
    """A column of a window: `.mean()`, `.sum()`, `.count()`, `.min()`, `.max()`, …, `.apply(f)`."""

    __slots__ = ("_column", "_type", "_window")

    def __init__(self, window: Window, column: str, type: Type):
        self._window, self._column, self._type = window, column, type

    def __getattr__(self, name: str) -> Method:
        if name in AGGREGATES:
            return Method(name, lambda: self._aggregate(name))
        if name.startswith("__"):
            raise AttributeError(name)
        has = ", ".join(f"{one}()" for one in AGGREGATES)
        raise trace_error(f"a window has no {name!r}; it has {has} and apply(function)")

    def apply(self, function: Any, /, *more: Any) -> Any:
        """What a user function gives for the values in the window, the oldest first; `more` are further arguments."""
        if not isinstance(function, Function):
            raise trace_error(f'apply(…) takes a function that is decorated with @ms.udf("float64"), not {function!r}')
        return function.over(self._aggregate("values"), more)

    def _aggregate(self, kind: str) -> Value:
        window = self._window
        tracer, table = window._tracer, window._table
        try:
            result = infer.window_type(kind, self._type)
        except infer.Mismatch as error:
            raise trace_error(str(error)) from None
        operands = tuple(tracer.operand(one)[0] for one in window._operands)
        text = f"{kind} {window._span.text}"
        return tracer.step("window", operands, result, table=table.name, columns=(self._column,), text=text)

    def _not_a_value(self) -> NoReturn:
        raise trace_error(f"a column of a window has many values; aggregate them: .over(…).{self._column}.mean()")

    def _refuse(self, what: str) -> NoReturn:
        self._not_a_value()


def over(row: Row, span: Any = None, rows: Any = None) -> Window:
    """The window of one row: `row.over("5 min")`, `row.over(rows=100)`, in a trigger also `row.over(w)`."""
    tracer, table = row._handle.tracer, row._table
    found, more = _span(tracer, table, span, rows, f"{table.name}[…].over")
    return Window(tracer, table, (row._handle, *more), found)


def window(of: Any, /, span: Any = None, *, rows: Any = None) -> Window:
    """Several rows as one window: `ms.window([speeds[k] for k in ms.each(e.segments)], "5 min").speed.sum()`."""
    tracer = current_tracer("ms.window")
    given = list(of) if isinstance(of, Iterable) and not isinstance(of, Traced) else [of]
    if not given or not all(isinstance(one, Row) for one in given):
        raise trace_error(
            "ms.window takes rows of a table and a span: ms.window([speeds[k] for k in ms.each(e.segments)], '5 min'), "
            "or rows=100 in place of the span"
        )
    table = given[0]._table
    if any(one._table is not table for one in given):
        raise trace_error("the rows of one ms.window belong to one table; take a window for each")
    found, more = _span(tracer, table, span, rows, "ms.window")
    return Window(tracer, table, (_collected(tracer, table, given), *more), found)


def _span(tracer: Tracer, table: TableSpec, span: Any, rows: Any, what: str) -> tuple[Span, tuple[Value, ...]]:
    """The span, and what a window of it needs besides its rows."""
    if (span is None) == (rows is None):
        raise trace_error(
            f"{what} takes a span ('5 min', or 300 for an int64 order column), or rows=100; one of the two"
        )
    if isinstance(span, Value) or isinstance(rows, Value):
        raise trace_error(
            f"{what}: a span belongs to the program and can't differ from event to event; give a constant"
        )
    if isinstance(span, Firing):
        if table.retain is None and span._trigger.kind == "session":
            raise trace_error(f"{what}(w): say how long a session can be: app.table({table.name!r}, …, retain='1 h')")
        return _checked(tracer, table, Span("trigger", span._longest(table)), what), (span.start,)
    try:
        found = parse_span(span, what) if rows is None else parse_rows(rows, f"{what}(rows=…)")
        return _checked(tracer, table, found, what), ()
    except SpanError as error:
        raise trace_error(str(error)) from None


def _checked(tracer: Tracer, table: TableSpec, span: Span, what: str) -> Span:
    check_clock(span, tracer.clock, what)
    retain = table.retain
    if retain is not None and span.unit != "rows" and span.size > retain.size:
        raise trace_error(f"{what}: {span} is more than table {table.name!r} retains ({retain}); raise its retain=")
    return span


def _collected(tracer: Tracer, table: TableSpec, given: list[Row]) -> Value:
    """Steps that put rows together. Rows that a finished loop over ms.each has named are named again, in a loop."""
    rows = tracer.step("rows", (), types.ROW, table=table.name)
    first: dict[int, Scope] = {}  # of each finished loop the iteration that is in the program
    for row in given:
        scope = row._handle.scope
        if tracer.is_open(scope):
            tracer.step("collect", (row._operand(), rows.operand), types.NULL, table=table.name)
        elif first.setdefault(scope.loop, scope) is scope:
            _collect_loop(tracer, table, row, rows)
    return rows


def _collect_loop(tracer: Tracer, table: TableSpec, row: Row, rows: Value) -> None:
    scope, operand = row._handle.scope, row._handle.operand
    assert isinstance(operand, Ref)
    named = tracer.steps[operand.step].args
    simple = tracer.steps[operand.step].op == "row" and all(
        not isinstance(one, Ref) or one.step < scope.loop for one in named
    )
    if scope.parent is None or not tracer.is_open(scope.parent) or not simple:
        raise trace_error(
            "the rows of ms.window are named by elements of one ms.each, event columns and constants: "
            "[speeds[k] for k in ms.each(e.segments)]"
        )
    tracer.bodies.pop(scope.path, None)  # the list that it built ends here: nothing is carried further
    loop = tracer.open_loop([tracer.value_of(one) for one in tracer.steps[scope.loop].args], plain=True)
    for _ in range(tracer.iterations_of(loop)):
        elements = tracer.enter_body(loop)
        key = tuple(
            elements[one.position].operand if isinstance(one, Element) and one.loop == scope.loop else one
            for one in named
        )
        handle = tracer.step("row", key, types.ROW, table=table.name)
        tracer.step("collect", (handle.operand, rows.operand), types.NULL, table=table.name)
    tracer.close_loop(loop)


# ------------------------------------------------------------------------------------------------ triggers


class Firing:
    """What a trigger's function is given: `w.start`, `w.end` and, with `each`, `w.key`."""

    __slots__ = ("_each", "_tracer", "_trigger")

    def __init__(self, tracer: Tracer, trigger: Trigger, each: TableSpec | None):
        self._tracer, self._trigger, self._each = tracer, trigger, each

    @property
    def start(self) -> Value:
        return self._tracer.column(START)

    @property
    def end(self) -> Value:
        return self._tracer.column(END)

    @property
    def key(self) -> Any:
        """The row's key: a value, or a tuple of its parts by name."""
        if self._each is None:
            raise trace_error("w.key: this trigger has no each=table, so no row starts it")
        parts = [self._tracer.column(name) for name in key_columns(self._each)]
        if len(parts) == 1:
            return parts[0]
        return collections.namedtuple("Key", [name for name, _ in self._each.key], rename=True)(*parts)

    def _longest(self, table: TableSpec) -> int:
        return self._trigger.window.size if self._trigger.kind == "every" or table.retain is None else table.retain.size

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise trace_error(f"w has no {name!r}; a trigger's window has start, end and, with each=table, key")


def key_columns(table: TableSpec) -> list[str]:
    return [KEY] if len(table.key) == 1 else [f"{KEY}.{name}" for name, _ in table.key]


def firing_columns(trigger: Trigger, tables: Mapping[str, TableSpec], clock: Type) -> dict[str, Type]:
    """What a firing has in place of an event's columns, with types."""
    columns = {START: clock, END: clock}
    if trigger.each:
        table = tables[trigger.each]
        columns.update(zip(key_columns(table), (kind for _, kind in table.key), strict=True))
    return columns


def trace_trigger(
    function: Callable[[Any], Any],
    trigger: Trigger,
    tables: Mapping[str, TableSpec],
    clock: Type,
) -> Transaction:
    """What a trigger's function does."""
    each = tables[trigger.each] if trigger.each else None
    columns = firing_columns(trigger, tables, clock)
    traced = trace.trace(function, (), columns, tables, clock, lambda tracer: Firing(tracer, trigger, each))
    for step in traced.steps:
        if step.table == trigger.each and step.op in ("write", "insert", "delete"):
            raise TraceError(
                f"{traced.name} ({step.source}): a trigger can't write to {trigger.each!r}, the table whose rows start "
                f"it (each=): it would start itself again. Write to another table"
            )
    return replace(traced, trigger=trigger)


def make_trigger(kind: str, period: Any, window: Any, each: TableSpec | None, clock: Type | None, name: str) -> Trigger:
    """A trigger from what users write; `name` is what they wrote it with."""
    words = "gap" if kind == "session" else "period"
    try:
        spans = [parse_span(period, f"{name}: {words}")]
        spans.append(parse_span(window, f"{name}: window") if window is not None else spans[0])
        for span in spans:
            check_clock(span, clock, name)
    except SpanError as error:
        raise TraceError(str(error)) from None
    if spans[0].unit != spans[1].unit:
        raise TraceError(f"{name}: the period ({spans[0]}) and the window ({spans[1]}) count in different units")
    if each is not None and each.retain is not None and spans[1].size > each.retain.size:
        raise TraceError(
            f"{name}: {spans[1]} is more than table {each.name!r} retains ({each.retain}); raise its retain="
        )
    return Trigger(kind, spans[0], spans[1], "" if each is None else each.name)


# --------------------------------------------------------------------------------------------- retention


def spans_of(transaction: Transaction) -> list[tuple[str, Span]]:
    """Each window that a transaction reads: its table and its span."""
    found = [(step.table, window_of(step.text)[1]) for step in transaction.steps if step.op == "window"]
    trigger = transaction.trigger
    if trigger is not None and trigger.each and trigger.kind == "every":
        found.append((trigger.each, trigger.window))
    return found


def window_of(text: str) -> tuple[str, Span]:
    """A window step's aggregate and span."""
    kind, _, span = text.partition(" ")
    return kind, Span.from_text(span)


def with_kept(tables: Iterable[TableSpec], transactions: tuple[Transaction, ...]) -> tuple[TableSpec, ...]:
    """The tables, each with what it must keep for the windows that are read of it."""
    used = [one for transaction in transactions for one in spans_of(transaction)]
    sessions = [one.trigger for one in transactions if one.trigger is not None and one.trigger.kind == "session"]

    def of(table: TableSpec) -> Kept | None:
        windows = [_plain(span, table) for name, span in used if name == table.name]
        gaps = tuple(one.period.size for one in sessions if one.each == table.name)
        return kept(table.retain, windows, gaps)

    return tuple(table if (keeps := of(table)) is None else replace(table, kept=keeps) for table in tables)


def _plain(span: Span, table: TableSpec) -> Span:
    return Span("time", span.size) if span.unit == "trigger" else span


def check_kept(transaction: Transaction, tables: Mapping[str, TableSpec]) -> None:
    """Fail if a transaction made ad hoc looks further back than the tables of an open engine keep."""
    for name, span in spans_of(transaction):
        keeps = tables[name].kept or Kept(0, 0)
        if span.size > (keeps.rows if span.unit == "rows" else keeps.limit):
            raise TraceError(
                f"{transaction.name}: a window of {span} looks further back than table {name!r} keeps in this engine; "
                f"declare it with retain=, or use the window in a transaction of the app"
            )


def check_units(transaction: Transaction, tables: Mapping[str, TableSpec], clock: Type | None) -> None:
    """Fail unless every span of a transaction counts as the order column does: known only with the first batch."""
    spans = [span for _, span in spans_of(transaction)]
    spans += [] if transaction.trigger is None else transaction.trigger.spans
    for span in (*spans, *(table.retain for table in tables.values() if table.retain is not None)):
        try:
            check_clock(span, clock, transaction.name)
        except SpanError as error:
            raise infer.Mismatch(str(error)) from None
