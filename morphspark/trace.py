"""From a Python function to a program: the function runs once, on traced values, and every line leaves steps.

A loop body runs twice. The first run becomes the program; the second must record the same steps and may not
touch a value of the first. So a value carried from one iteration to the next, or a Python counter that
changes between them, is an error here and never a silently wrong program. A function with loops runs again
with loops that don't run at all, as an empty list does: what stands outside them must be the same then, or a
Python value was carried out of a body.
"""

from __future__ import annotations

import inspect
import itertools
import os
import random
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from . import infer, types
from .errors import TraceError, did_you_mean
from .expr import Method, Traced, Value, constant, refuses_operators
from .program import (
    Column,
    Const,
    Element,
    FunctionSpec,
    Guard,
    Operand,
    Ref,
    Step,
    TableSpec,
    Transaction,
    analyse_guards,
)
from .types import Type

if TYPE_CHECKING:
    from .window import Window

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_current: ContextVar[Tracer | None] = ContextVar("morphspark_tracer", default=None)
# How often a loop's body runs in each of the two traces.
ITERATIONS = (2, 5)
# With this many loops or fewer, every combination of empty and other lists is traced; with more, a sample.
_LOOPS_COMBINED_MAX = 4
_COMBINATIONS_SAMPLED = 24
_NONE = Const(types.NULL, None)
_FROM_STATE = frozenset({"read", "exists", "window"})
# What users look for at a row and find at its table: the arguments behind the key.
_OF_A_TABLE = {"delete": "", "insert": ", column=value, …"}
_CHANGES = (
    "a loop over ms.each depends on a Python value that changes from one iteration to the next (a counter, a list "
    "being built); count with ms.count(e.items), add up with ms.sum(…), or keep such values in tables"
)
_CARRIED = (
    "what happens here depends on a Python value that the body of a loop over ms.each ({loop}) sets, and an empty list "
    "never runs the body. Use ms.where(ms.count(e.items) > 0, a, b), a reduction (ms.sum(… for k in ms.each(…)), "
    "ms.count, ms.min, ms.max, ms.mean, ms.any, ms.all), or keep the value in a table"
)
_NOT_OF_EVENT = (
    "the candidates of ms.key are known before the transaction runs: columns of the event, constants, and what is "
    "computed from them; this one is read from a table"
)
_BREAK = "`break` and `return` inside ms.each are not possible; use `with ms.when(…):`"
_FOREIGN = "this value belongs to another transaction function; a traced value lives only inside its own"


def check_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise TraceError(
            f"{what} {name!r}: expected a letter, then up to 63 letters, digits or underscores (a leading "
            f"underscore is kept for morphspark's own columns)"
        )
    return name


def unknown_name(name: str, what: str, known: Iterable[str]) -> str:
    """The words for a name that is not there, with the nearest one that is."""
    known = list(known)
    hint = did_you_mean(name, known)
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return f"{what} has no column {name!r}{hint} (columns: {shown or 'none'})"


# ------------------------------------------------------------------------------------------------ places


def _user_frame() -> tuple[str, int]:
    """The nearest place outside this package: the user's line."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if os.path.dirname(os.path.abspath(path)) != _PACKAGE:
            return path, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "?", 0


def _source() -> str:
    path, line = _user_frame()
    return f"{os.path.basename(path)}:{line}"


def trace_error(message: str) -> TraceError:
    tracer = _current.get()
    where = f"{tracer.name} ({_source()}): " if tracer else ""
    return TraceError(where + message)


def active_tracer() -> Tracer | None:
    return _current.get()


def current_tracer(what: str) -> Tracer:
    tracer = _current.get()
    if tracer is None:
        raise TraceError(
            f"{what} works only inside a function decorated with @app.on(…), @app.every(…) or @app.session(…)"
        )
    return tracer


# ------------------------------------------------------------------------------------------------ tracer


# Where a loop stands: (2, 0) is the first loop inside the body of the function's third. The same in every run.
LoopPath = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Scope:
    """One run of a loop body, or the function itself. A value may be used only while its scope is open."""

    parent: Scope | None
    loop: int  # step of the `each`; -1 for the function
    path: LoopPath = ()
    loops: int = 0  # opened directly inside, so far


@dataclass(slots=True)
class _Loop:
    path: LoopPath
    plain: bool  # the reduction of a list column: no code of the user's
    each: int
    lists: tuple[Type, ...]
    outer: Scope
    block: Guard
    runs: list[int] = field(default_factory=list)  # where each run of the body begins


class Tracer:
    """Records the steps of one function while it runs."""

    def __init__(
        self,
        name: str,
        events: Mapping[str, Type] | None,
        tables: Mapping[str, TableSpec],
        iterations: int,
        empty: Collection[LoopPath] = (),
        clock: Type | None = types.UNKNOWN,
    ):
        self.name = name
        self.iterations = iterations  # how often the body of a loop is run
        self.empty = empty  # loops whose body is not run
        self.bodies: dict[LoopPath, tuple[int, int]] = {}  # the steps of the body of each loop of the user's
        self.skipped = 0  # loops that were not run
        self.events = events
        self.tables = tables
        self.clock = clock  # type of the first order column; None: there is none
        self.steps: list[Step] = []
        self.step_types: list[Type] = []
        self.scope = self.root = Scope(None, -1)
        self.block: Guard = ()
        self.loops: list[_Loop] = []
        self.functions: dict[str, FunctionSpec] = {}  # that it calls
        self.abandoned = False

    # -- values

    def operand(self, value: Any, what: str = "constant") -> tuple[Operand, Type]:
        """A traced value or a Python constant as an operand, if it may be used here."""
        if isinstance(value, Value):
            self._check_open(value)
            return value.operand, value.type
        if hasattr(type(value), "_not_a_value"):
            value._not_a_value()
        if isinstance(value, Traced | Event):
            raise trace_error("an event or a list is not a value; name a column, or loop with ms.each")
        try:
            const = constant(value, what)
        except TraceError as error:
            raise trace_error(str(error)) from None
        return const, const.type

    def value(self, op: str, *args: Any) -> Value:
        """Record a pure operation."""
        operands = [self.operand(arg) for arg in args]
        if op in infer.COMPARISON and any(operand == _NONE for operand, _ in operands):
            raise trace_error("nothing equals or orders null, so a comparison with None always aborts; use .is_null()")
        try:
            result = infer.result_type(op, [kind for _, kind in operands])
        except infer.Mismatch as error:
            raise trace_error(str(error)) from None
        return self.step(op, tuple(operand for operand, _ in operands), result)

    def step(self, op: str, args: tuple[Operand, ...], type: Type, **data: Any) -> Value:
        if _current.get() is not self:
            raise trace_error(_FOREIGN)
        self.steps.append(Step(op, args, self.block, source=_source(), **data))
        self.step_types.append(type)
        return Value(self, Ref(len(self.steps) - 1), type, self.scope)

    def column(self, name: str) -> Value:
        if self.events is None:
            return Value(self, Column(name), types.UNKNOWN, self.root)
        if name not in self.events:
            raise trace_error(unknown_name(name, "the event", self.events))
        return Value(self, Column(name), self.events[name], self.root)

    def check(self, rule: Callable[..., None], *args: Any) -> None:
        try:
            rule(*args)
        except infer.Mismatch as error:
            raise trace_error(str(error)) from None

    def uses(self, function: FunctionSpec) -> None:
        """The transaction calls a user function."""
        if self.functions.setdefault(function.name, function).live is not function.live:
            raise trace_error(f"two functions are called {function.name!r}; rename one")

    def value_of(self, operand: Operand) -> Value:
        """An operand of a step that was recorded before."""
        if isinstance(operand, Column):
            return self.column(operand.name)
        assert isinstance(operand, Ref)
        return Value(self, operand, self.step_types[operand.step], self.scope)

    def of_event(self, operand: Operand) -> bool:
        """Whether a value is computed from the event alone."""
        wanted, seen = [operand], set()
        while wanted:
            one = wanted.pop()
            if not isinstance(one, Ref) or one.step in seen:
                continue
            seen.add(one.step)
            if self.steps[one.step].op in _FROM_STATE:
                return False
            wanted += self.steps[one.step].args
            if self.steps[one.step].op == "reduce":
                begin = self.steps[one.step].args[0]
                wanted += [step.args[0] for step in self.steps if step.op == "accumulate" and step.args[1] == begin]
        return True

    def is_open(self, wanted: Scope) -> bool:
        scope: Scope | None = self.scope
        while scope is not None and scope is not wanted:
            scope = scope.parent
        return scope is wanted

    def _check_open(self, value: Value) -> None:
        if value.tracer is not self:
            raise trace_error(_FOREIGN)
        if self.is_open(value.scope):
            return
        if any(loop.each == value.scope.loop for loop in self.loops):
            raise trace_error(
                "a value is carried from one iteration of ms.each to the next; the body must stand for itself. "
                "Use a reduction: ms.sum(… for k in ms.each(…)), ms.min, ms.max, ms.any, ms.all, or keep it in a table"
            )
        raise trace_error(
            "a value from inside a loop over ms.each is used after it; which iteration's? "
            "Use a reduction: ms.sum(… for k in ms.each(…)), ms.count, ms.min, ms.max, ms.mean, ms.any, ms.all"
        )

    # -- loops

    def open_loop(self, lists: list[Value], plain: bool) -> _Loop:
        operands = []
        for one in lists:
            if not isinstance(one, Value):
                raise trace_error(
                    "ms.each takes list columns of the event (ms.each(e.items)); "
                    "over a Python list write a plain `for`, which is unrolled"
                )
            operand, kind = self.operand(one)
            if kind.element is None and kind not in (types.UNKNOWN, types.NULL):
                raise trace_error(f"ms.each takes list columns, not {kind}")
            operands.append(operand)
        self.step("each", tuple(operands), types.NULL)
        kinds = tuple(one.type.element or one.type for one in lists)
        path = (*self.scope.path, self.scope.loops)
        self.scope.loops += 1
        self.loops.append(_Loop(path, plain, len(self.steps) - 1, kinds, self.scope, self.block))
        return self.loops[-1]

    def iterations_of(self, loop: _Loop) -> int:
        self.skipped += loop.path in self.empty
        return 0 if loop.path in self.empty else self.iterations

    def enter_body(self, loop: _Loop) -> tuple[Value, ...]:
        self._check_innermost(loop)
        if self.block != loop.block:
            raise trace_error("a `with ms.when` block must end in the same iteration in which it begins")
        loop.runs.append(len(self.steps))
        self.scope = Scope(loop.outer, loop.each, loop.path)
        return tuple(
            Value(self, Element(loop.each, position), kind, self.scope) for position, kind in enumerate(loop.lists)
        )

    def close_loop(self, loop: _Loop) -> None:
        self._check_innermost(loop)
        self._check_same_body(loop)
        self.loops.pop()
        if len(loop.runs) > 1:
            del self.steps[loop.runs[1] :], self.step_types[loop.runs[1] :]
        self.scope = loop.outer
        if not loop.plain:
            self.bodies.setdefault(loop.path, (loop.each + 1, len(self.steps)))
        self.step("end", (), types.NULL)

    def abandon_loop(self) -> None:
        self.abandoned = True

    def _check_innermost(self, loop: _Loop) -> None:
        if self.abandoned:
            raise trace_error(_BREAK)
        if self.loops[-1] is not loop:
            raise trace_error("two loops over ms.each go in step (zip?); write `for a, b in ms.each(e.a, e.b):`")

    def _check_same_body(self, loop: _Loop) -> None:
        if not loop.runs:
            return
        ends = [*loop.runs[1:], len(self.steps)]
        first = self.steps[loop.runs[0] : ends[0]]
        for start, end in zip(loop.runs[1:], ends[1:], strict=True):
            again = [_shift(step, start, start - loop.each - 1) for step in self.steps[start:end]]
            if first != again:
                raise trace_error(_CHANGES)

    # -- the whole function

    def finish(self, on: tuple[tuple[str, tuple[Const, ...]], ...], result: Any) -> Transaction:
        if self.abandoned or self.loops:
            raise trace_error(_BREAK)
        returns = self._returns(result)
        steps = tuple(analyse_guards(self.steps, returns))
        return Transaction(self.name, on, steps, tuple(returns), tuple(self.functions.values()))

    def _returns(self, result: Any) -> list[tuple[str, Operand]]:
        if result is None:
            return []
        if not isinstance(result, Mapping):
            raise trace_error(f"a transaction returns nothing or a dict of output columns, not {_kind(result)}")
        returns = []
        for name, value in result.items():
            check_name(name, f"{self.name}: returned column")
            if self.events is not None and name in self.events:
                raise trace_error(f"returned column {name!r} has the name of an event column; rename it")
            operand, kind = self.operand(value, f"returned column {name!r}")
            if kind.element is not None:
                raise trace_error(f"returned column {name!r} is a list; return a reduction of it")
            returns.append((name, operand))
        return returns


def _kind(value: Any) -> str:
    return "a traced value" if isinstance(value, Traced) else f"a {type(value).__name__}"


def _shift(step: Step, start: int, offset: int) -> Step:
    """The step with every reference to a step at or after `start` moved back: the second run laid over the first."""

    def move(operand: Operand) -> Operand:
        if isinstance(operand, Ref) and operand.step >= start:
            return Ref(operand.step - offset)
        if isinstance(operand, Element) and operand.loop >= start:
            return Element(operand.loop - offset, operand.position)
        return operand

    return replace(
        step,
        args=tuple(map(move, step.args)),
        guard=tuple((move(condition), wanted) for condition, wanted in step.guard),
    )


# ---------------------------------------------------------------------------------------- events and rows


class Event:
    """The event of a transaction: `e.amount`, or `e["from"]` for names that are no attributes."""

    __slots__ = ("_tracer",)

    def __init__(self, tracer: Tracer):
        object.__setattr__(self, "_tracer", tracer)

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._tracer.column(name)

    def __getitem__(self, name: str) -> Value:
        if not isinstance(name, str):
            raise trace_error(f"an event's columns have names; e[{name!r}] is none")
        return self._tracer.column(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise trace_error(f"an event can't be changed (e.{name} = …); return the value as an output column")

    def __setitem__(self, name: str, value: Any) -> None:
        self.__setattr__(name, value)


@refuses_operators
class Key(Traced):
    """`ms.key(value, among=candidates)`: a key that is one of the candidates, to be put between a table's brackets."""

    __slots__ = ("_among", "_value")

    def __init__(self, value: Any, among: Any):
        self._value, self._among = value, among

    def _not_a_value(self) -> NoReturn:
        raise trace_error("ms.key(…) is a key and no value; put it between a table's brackets: records[ms.key(…)]")


@refuses_operators
class Row(Traced):
    """A handle to a row of a table; reading or writing one of its columns is an operation."""

    __slots__ = ("_handle", "_table")

    def __init__(self, table: TableSpec, handle: Value):
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_handle", handle)

    @property
    def exists(self) -> Method:
        """`row.exists()`: is there such a row?"""
        return Method("exists", self._exists)

    def over(self, span: Any = None, *, rows: Any = None) -> Window:
        """The versions that earlier transactions left, as one window: `row.over("5 min")`, `row.over(rows=100)`."""
        from .window import over

        return over(self, span, rows)

    def _exists(self) -> Value:
        tracer = self._handle.tracer
        return tracer.step("exists", (self._operand(),), types.BOOL, table=self._table.name)

    def _not_a_value(self) -> NoReturn:
        table = self._table
        raise trace_error(
            f"a row of {table.name!r} is not a value; name a column of it: {table.name}[…].{table.columns[0][0]}"
        )

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __getitem__(self, name: str) -> Value:
        kind = self._column(name)
        step = self._handle.tracer.step
        return step("read", (self._operand(),), kind, table=self._table.name, columns=(name,))

    def __setitem__(self, name: str, value: Any) -> None:
        tracer, table = self._handle.tracer, self._table
        kind = self._column(name)
        operand, given = tracer.operand(value)
        tracer.check(infer.check_assignable, given, kind, f"{table.name}.{name}")
        tracer.step("write", (self._operand(), operand), types.NULL, table=table.name, columns=(name,))

    def _operand(self) -> Operand:
        return self._handle.tracer.operand(self._handle)[0]

    def _column(self, name: str) -> Type:
        for column, kind in self._table.columns:
            if column == name:
                return kind
        table = self._table.name
        hint = f"; write {table}.{name}(key{_OF_A_TABLE[name]})" if name in _OF_A_TABLE else ""
        raise trace_error(unknown_name(name, f"table {table!r}", (c for c, _ in self._table.columns)) + hint)


def row(table: TableSpec, key: Any) -> Row:
    """The row of a table with this key; a tuple for a key of several parts."""
    tracer = current_tracer(f"{table.name}[…]")
    if tracer.tables.get(table.name) is not table:
        raise trace_error(f"table {table.name!r} belongs to another app; a transaction uses its own app's tables")
    if isinstance(key, Key):
        args = (*_key_operands(tracer, table, key._value), *_candidates(tracer, table, key._among))
        return Row(table, tracer.step("choose", args, types.ROW, table=table.name))
    return Row(table, tracer.step("row", _key_operands(tracer, table, key), types.ROW, table=table.name))


def _key_operands(tracer: Tracer, table: TableSpec, key: Any) -> tuple[Operand, ...]:
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(table.key):
        wanted = ", ".join(f"{name}: {kind}" for name, kind in table.key)
        raise trace_error(f"the key of {table.name!r} has {len(table.key)} part(s) ({wanted}), not {len(parts)}")
    operands = []
    for part, (name, declared) in zip(parts, table.key, strict=True):
        operand, kind = tracer.operand(part, f"key of {table.name!r}")
        what = f"the key of {table.name!r}" if len(parts) == 1 else f"part {name!r} of the key of {table.name!r}"
        tracer.check(infer.check_key, kind, declared, what)
        operands.append(operand)
    return tuple(operands)


def _candidates(tracer: Tracer, table: TableSpec, among: Any) -> tuple[Operand, ...]:
    """A list column of the event, or a row for each candidate."""
    if isinstance(among, Value):
        operand, kind = tracer.operand(among)
        tracer.check(infer.check_candidates, kind, table)
        if isinstance(operand, Column):
            return (operand,)
    elif isinstance(among, list | tuple):
        for candidate in among:
            for operand in _key_operands(tracer, table, candidate):
                if not tracer.of_event(operand):
                    raise trace_error(_NOT_OF_EVENT)
        return tuple(row(table, candidate)._operand() for candidate in among)
    raise trace_error(
        f"among= takes a list column of the event (among=e.candidates) or a Python list of keys, not {_kind(among)}"
    )


def insert(table: TableSpec, key: tuple[Any, ...], columns: Mapping[str, Any]) -> None:
    """`key` is empty where the key is among the columns, by the names of its parts (`key=…` for a key of one)."""
    tracer = current_tracer(f"{table.name}.insert")
    if not key:
        key, columns = _key_by_name(table, columns)
    if len(key) > 1:
        raise trace_error(f"{table.name}.insert takes the key, then columns by name: insert(key, column=value, …)")
    names = [name for name, _ in table.columns]
    for name in columns:
        if name not in names:
            raise trace_error(unknown_name(name, f"table {table.name!r}", names))
    handle = row(table, key[0])
    operands: list[Operand] = [handle._operand()]
    for index, (name, kind) in enumerate(table.columns):
        if name in columns:
            operand, given = tracer.operand(columns[name], f"column {name!r}")
            tracer.check(infer.check_assignable, given, kind, f"{table.name}.{name}")
        elif table.default is not None:
            operand = Const(kind, table.default[index])
        else:
            raise trace_error(f"insert into {table.name!r} gives no value for column {name!r}, which has no default")
        operands.append(operand)
    tracer.step("insert", tuple(operands), types.NULL, table=table.name, columns=tuple(names))


def _key_by_name(table: TableSpec, columns: Mapping[str, Any]) -> tuple[tuple[Any], dict[str, Any]]:
    parts = [name for name, _ in table.key]
    if "key" in columns:
        parts = ["key"]
    missing = [name for name in parts if name not in columns]
    if missing:
        raise trace_error(
            f"{table.name}.insert has no key ({', '.join(missing)}); write {table.name}.insert(key, column=value, …)"
        )
    key = tuple(columns[name] for name in parts)
    others = {name: value for name, value in columns.items() if name not in parts}
    return (key[0] if len(key) == 1 else key,), others


def delete(table: TableSpec, key: Any) -> None:
    tracer = current_tracer(f"{table.name}.delete")
    handle = row(table, key)
    tracer.step("delete", (handle._operand(),), types.NULL, table=table.name)


# --------------------------------------------------------------------------------------------- the tracing


def trace(
    function: Callable[[Any], Any],
    on: tuple[tuple[str, tuple[Const, ...]], ...],
    events: Mapping[str, Type] | None,
    tables: Mapping[str, TableSpec],
    clock: Type | None = types.UNKNOWN,
    make_argument: Callable[[Tracer], Any] = Event,
) -> Transaction:
    """Run the function on traced values and give back what it does. `make_argument` makes what it is given.

    A function with loops runs twice, with a different number of iterations. A Python value that counts them, or
    collects something in each, makes two different programs: neither would be right. Then it runs with empty lists.
    """
    name = check_name(getattr(function, "__name__", "?"), "transaction")
    first, *others = ITERATIONS

    def run(tracer: Tracer) -> Transaction:
        return _run(tracer, function, on, make_argument)

    tracer = Tracer(name, events, tables, first, clock=clock)
    transaction = run(tracer)
    for iterations in others if tracer.root.loops else ():
        if run(again := Tracer(name, events, tables, iterations, clock=clock)) != transaction:
            raise _error_of(again, _CHANGES)
    for empty in _combinations(list(tracer.bodies)):
        _check_empty(tracer, transaction, Tracer(name, events, tables, first, empty, clock), run)
    return transaction


def _run(
    tracer: Tracer,
    function: Callable[[Any], Any],
    on: tuple[tuple[str, tuple[Const, ...]], ...],
    make_argument: Callable[[Tracer], Any],
) -> Transaction:
    token = _current.set(tracer)
    try:
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise trace_error("a transaction is a plain function, without yield or async")
        return tracer.finish(on, function(make_argument(tracer)))
    finally:
        _current.reset(token)


def _error_of(tracer: Tracer, message: str, source: str = "") -> TraceError:
    return TraceError(f"{tracer.name} ({source or _source()}): {message}")


# --------------------------------------------------------------------------------------------- empty lists


def _combinations(loops: list[LoopPath]) -> list[frozenset[LoopPath]]:
    """Which loops to leave out together, the fewest first: what one of them sets, another may set again.

    A loop inside a loop that is left out does not matter.
    """
    if len(loops) <= _LOOPS_COMBINED_MAX:
        chosen = [set(some) for n in range(1, len(loops) + 1) for some in itertools.combinations(loops, n)]
    else:
        chance = random.Random(0)  # the same sample every time
        chosen = [{one for one in loops if chance.random() < 0.5} for _ in range(_COMBINATIONS_SAMPLED)]
        for bit in range(len(loops).bit_length()):  # so that any two loops differ once, either way
            chosen += [{one for i, one in enumerate(loops) if (i >> bit & 1) == side} for side in (0, 1)]
        chosen.append(set(loops))
    outermost = (frozenset(one for one in some if not _is_inside(one, some)) for some in chosen)
    return [some for some in dict.fromkeys(outermost) if some]


def _is_inside(loop: LoopPath, others: Collection[LoopPath]) -> bool:
    return any(loop[:depth] in others for depth in range(1, len(loop)))


def _check_empty(full: Tracer, transaction: Transaction, tracer: Tracer, run: Callable[[Tracer], Transaction]) -> None:
    """Run the function with some loops left out: all the rest must stay as it is."""
    bodies = sorted(full.bodies[path] for path in tracer.empty)
    loop = full.steps[bodies[0][0] - 1].source
    try:
        returns = run(tracer).returns
    except Exception as error:  # it went well with every loop running: the user's own code misses a value
        reason = f" (without it: {type(error).__name__}: {error})"
        raise _error_of(tracer, _CARRIED.format(loop=loop) + reason, _place_of(error)) from error
    wanted, moved = _without(full.steps, bodies)
    for step, expected in itertools.zip_longest(tracer.steps, wanted):
        if step != expected:
            raise _error_of(tracer, _CARRIED.format(loop=loop), (step or expected).source)
    for (name, operand), (expected_name, expected) in itertools.zip_longest(
        returns, transaction.returns, fillvalue=("", _NONE)
    ):
        if name != expected_name or operand != _moved(expected, moved):
            column = f"returned column {name or expected_name!r}: "
            raise _error_of(tracer, column + _CARRIED.format(loop=loop), loop)


def _without(steps: Sequence[Step], bodies: Iterable[tuple[int, int]]) -> tuple[list[Step], dict[int, int]]:
    """The steps without these ranges, renumbered, and the new number of each."""
    dropped = {index for start, end in bodies for index in range(start, end)}
    kept = [index for index in range(len(steps)) if index not in dropped]
    moved = {index: place for place, index in enumerate(kept)}
    return [
        replace(
            steps[index],
            args=tuple(_moved(arg, moved) for arg in steps[index].args),
            guard=tuple((_moved(condition, moved), wanted) for condition, wanted in steps[index].guard),
        )
        for index in kept
    ], moved


def _moved(operand: Operand, moved: Mapping[int, int]) -> Operand:
    if isinstance(operand, Ref):
        return Ref(moved[operand.step])
    if isinstance(operand, Element):
        return Element(moved[operand.loop], operand.position)
    return operand


def _place_of(error: BaseException) -> str:
    """The last line of the user's in an error's traceback."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if os.path.dirname(os.path.abspath(path)) != _PACKAGE:
            found = f"{os.path.basename(path)}:{line}"
    return found
