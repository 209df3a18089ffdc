"""An app: its tables and its transactions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from . import infer, trace, types, values, window
from .errors import ConfigError, SchemaError, TraceError
from .expr import constant
from .program import Const, Program, TableSpec, Transaction, declared
from .spans import Span, SpanError, check_clock, parse_span
from .types import Type

if TYPE_CHECKING:
    import os

    from .config import Config
    from .durable.store import Store
    from .engine import Engine

LATE_POLICIES = ("admit", "divert", "fail")
KEY_TYPES = (types.INT64, types.STRING)
ORDER_TYPES = ("int64", "timestamp", "string", "decimal")


class Table:
    """A table as a transaction sees it: `accounts[e.account].balance`, `.insert(…)`, `.delete(…)`."""

    def __init__(self, spec: TableSpec):
        self.spec = spec

    @property
    def name(self) -> str:
        return self.spec.name

    def __repr__(self) -> str:
        return f"<morphspark table {self.name!r}>"

    def __getitem__(self, key: Any) -> trace.Row:
        return trace.row(self.spec, key)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise trace.trace_error(
            f"a whole row can't be assigned; write a column ({self.name}[key].column = …) or {self.name}.insert(key, …)"
        )

    def __iter__(self) -> NoReturn:
        raise trace.trace_error(f"table {self.name!r} can't be iterated in a transaction")

    def __contains__(self, key: Any) -> NoReturn:
        raise trace.trace_error(f"`in` needs the answer now; write {self.name}[key].exists()")

    def __delitem__(self, key: Any) -> NoReturn:
        raise trace.trace_error(f"write {self.name}.delete(key)")

    def insert(self, /, *key: Any, **columns: Any) -> None:
        """`insert(key, column=value, …)`; the key may also be given by name."""
        trace.insert(self.spec, key, columns)

    def delete(self, key: Any) -> None:
        trace.delete(self.spec, key)


class App:
    """Tables and transactions over one stream of events.

    `order_by` names the order columns, the first of which is the timestamp; without it the order is arrival.
    `events` fixes the types of event columns; without it they are those of the first batch. `late` says what
    happens to an event that is older than a committed one: "admit", "divert" or "fail".
    """

    def __init__(
        self,
        name: str,
        order_by: str | Sequence[str] | None = None,
        events: Mapping[str, Any] | None = None,
        late: str = "admit",
        seed: int = 0,
    ):
        self.name = trace.check_name(name, "app")
        self.order_by = _order_columns(order_by)
        self.events = None if events is None else _event_types(events)
        if late not in LATE_POLICIES:
            raise ConfigError(f"App(late={late!r}): expected one of {', '.join(LATE_POLICIES)}")
        self.late = late
        self.seed = _seed(seed)
        self._tables: dict[str, TableSpec] = {}
        self._transactions: list[Transaction] = []
        self._functions: dict[str, Callable[[Any], Any]] = {}  # by the names of their transactions
        self._check_order_types()

    def __repr__(self) -> str:
        return f"<morphspark app {self.name!r}: {len(self._tables)} tables, {len(self._transactions)} transactions>"

    def table(
        self,
        name: str,
        key: Any,
        columns: Mapping[str, Any],
        default: Mapping[str, Any] | None = None,
        retain: Any = None,
    ) -> Table:
        """Declare a table. `key` is "int64", "string" or named parts of those; `default` covers every column.

        `retain` says how long versions are kept for windows ("10 min", or a whole number for an int64 order column);
        without it, as long as the largest window on the table.
        """
        trace.check_name(name, "table")
        if name in self._tables:
            raise TraceError(f"table {name!r} is declared twice")
        parts = _key_parts(name, key)
        kinds = _value_columns(name, columns, parts)
        stored = None if default is None else _default_values(name, kinds, default)
        kept = None if retain is None else self._span(retain, f"table {name!r}: retain")
        spec = TableSpec(name, parts, tuple(kinds.items()), stored, kept)
        self._tables[name] = spec
        return Table(spec)

    def on(self, /, *given: Any, **conditions: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        """Decorate the transaction of events whose columns equal these values (a list: any of them)."""
        if given:
            raise TraceError("write @app.on() for every event, or @app.on(column=value)")
        accepted = tuple((column, self._on_values(column, value)) for column, value in conditions.items())

        def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return self._define(function, trace.trace(function, accepted, self.events, self._tables, self._clock))

        return decorate

    def every(
        self, period: Any, window: Any = None, each: Table | None = None
    ) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        """Decorate a transaction that runs at every multiple of the period, for the `window` before it.

        With `each`, once for every row of that table that has a version in the window; else once, if the window holds
        an event. Without `window` it is as long as the period.
        """
        return self._trigger("every", period, window, each, "@app.every(…)")

    def session(self, gap: Any, each: Table | None = None) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        """Decorate a transaction that runs for a row of `each` when nothing was written to it for the gap."""
        return self._trigger("session", gap, None, each, "@app.session(…)")

    def _trigger(
        self, kind: str, period: Any, length: Any, each: Any, name: str
    ) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        if each is None and kind == "every":
            spec = None
        elif not isinstance(each, Table) or self._tables.get(each.name) is not each.spec:
            raise TraceError(f"{name}: each={each!r}: expected a table of this app")
        else:
            spec = each.spec
        trigger = window.make_trigger(kind, period, length, spec, self._clock, name)

        def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            clock = self._clock or types.UNKNOWN
            return self._define(function, window.trace_trigger(function, trigger, self._tables, clock))

        return decorate

    def _define(self, function: Callable[[Any], Any], transaction: Transaction) -> Callable[[Any], Any]:
        self._check_functions(transaction)
        if any(transaction.name == one.name for one in self._transactions):
            raise TraceError(f"transaction {transaction.name!r} is defined twice")
        self._transactions.append(transaction)
        self._functions[transaction.name] = function
        return function

    @property
    def program(self) -> Program:
        transactions = tuple(self._transactions)
        tables = window.with_kept(self._tables.values(), transactions)
        return Program(self.name, self.order_by, self.seed, tables, transactions)

    def transaction_of(self, function: Callable[[Any], Any]) -> str | None:
        """The name of the transaction that a decorated function has become."""
        return next((name for name, one in self._functions.items() if one is function), None)

    def trace(self, function: Callable[[Any], Any]) -> Transaction:
        """What a function does to this app's tables, without making it one of its transactions."""
        return trace.trace(function, (), self.events, self._tables, self._clock)

    def open(
        self,
        path: str | os.PathLike[str] | Store | None = None,
        config: Config | None = None,
        read_only: bool = False,
        evolve: str | None = None,
        query_id: str | None = None,
    ) -> Engine:
        """Open an engine over this app's tables: in memory, or with a path durable, where the last epoch left it.

        read_only    look at the state beside the query that writes it; `engine.refresh()` catches up
        evolve       go on although the app has changed: "tables" (tables and columns were added) or "program"
        query_id     the query whose epochs these are, if the state belongs to one
        """
        from .engine import Engine

        return Engine(self, path, config, read_only=read_only, evolve=evolve, query_id=query_id)

    def _check_functions(self, transaction: Transaction) -> None:
        """A program knows functions by their names."""
        known = {function.name: function for one in self._transactions for function in one.functions}
        for function in transaction.functions:
            if known.get(function.name, function).live is not function.live:
                raise TraceError(f"{transaction.name}: two functions are called {function.name!r}; rename one")

    @property
    def _clock(self) -> Type | None:
        """The type of the first order column, as far as it is known; None: there is none."""
        if not self.order_by:
            return None
        return types.UNKNOWN if self.events is None else self.events[self.order_by[0]]

    def _span(self, given: Any, what: str) -> Span:
        try:
            span = parse_span(given, what)
            check_clock(span, self._clock, what)
        except SpanError as error:
            raise TraceError(str(error)) from None
        return span

    def _on_values(self, column: str, value: Any) -> tuple[Const, ...]:
        several = value if isinstance(value, list | tuple | set | frozenset) else [value]
        if isinstance(value, set | frozenset):  # its order changes from process to process, the program must not
            several = sorted(value, key=lambda one: (type(one).__name__, repr(one)))
        values = tuple(constant(one, f"on({column}=…)") for one in several)
        if not values:
            raise TraceError(f"on({column}=[]) can match nothing; give at least one value")
        if any(one.type == types.NULL for one in values):
            raise TraceError(f"on({column}=None): null matches nothing; leave the condition out")
        if self.events is not None:
            if column not in self.events:
                raise TraceError(trace.unknown_name(column, "on(): the event", self.events))
            for one in values:
                check_on_type(column, self.events[column], one)
        return values

    def _check_order_types(self) -> None:
        for column in self.order_by if self.events is not None else ():
            if column not in self.events:
                raise TraceError(trace.unknown_name(column, "order_by: the event", self.events))
            check_order_type(column, self.events[column])

    # An app travels to a Spark Connect server as its program: the traced functions are not needed there.
    def __getstate__(self) -> dict[str, Any]:
        events = None if self.events is None else {name: str(kind) for name, kind in self.events.items()}
        functions = [one.live for one in self.program.functions]
        return {"program": self.program.to_json(), "events": events, "late": self.late, "functions": functions}

    def __setstate__(self, state: dict[str, Any]) -> None:
        program = Program.from_json(state["program"])
        self.__init__(program.name, program.order_by, state["events"], state["late"], program.seed)  # type: ignore[misc]
        self._tables = {table.name: declared(table) for table in program.tables}
        self._transactions = list(program.transactions)
        self._user_functions = state["functions"]  # the program finds them by name and hash while they live


def check_on_type(column: str, kind: Type, value: Const) -> None:
    """Fail unless an on() value can equal a column of this type."""
    try:
        infer.result_type("eq", [kind, value.type])
    except infer.Mismatch:
        raise SchemaError(f"on({column}={value.value!r}): the column is {kind}, the value {value.type}") from None


def check_order_type(column: str, kind: Type) -> None:
    if kind.name not in ORDER_TYPES and kind != types.NULL:
        raise SchemaError(f"order_by={column!r}: the column is {kind}; expected {', '.join(ORDER_TYPES)}")


def _order_columns(order_by: str | Sequence[str] | None) -> tuple[str, ...]:
    columns = () if order_by is None else (order_by,) if isinstance(order_by, str) else order_by
    fits = isinstance(columns, Sequence) and all(isinstance(column, str) and column for column in columns)
    if not fits or len(set(columns)) != len(columns):
        raise ConfigError(
            f"App(order_by={order_by!r}): expected a column name or a list of different ones, such as 'ts' or "
            f"['ts', 'id']; leave it out if events are to run in the order in which they come"
        )
    return tuple(columns)


def _event_types(events: Any) -> dict[str, Type]:
    example = "{'ts': 'int64', 'kind': 'string'}"
    if not isinstance(events, Mapping):
        raise ConfigError(
            f"App(events={events!r}): expected a dict of column names and types, such as {example}; "
            f"leave it out to take the types of the first batch"
        )
    for column in events:
        if not isinstance(column, str):
            raise ConfigError(f"App(events=…): column {column!r}: expected a name, as in {example}")
    return {column: types.parse(kind, f"events[{column!r}]") for column, kind in events.items()}


def _seed(seed: Any) -> int:
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise ConfigError(f"App(seed={seed!r}): expected a whole number, such as 42")
    return operator.index(seed)


def _check_dict(given: Any, what: str, of: str, example: str) -> None:
    if not isinstance(given, Mapping):
        raise TraceError(f"{what}={given!r}: expected a dict of column names and {of}, such as {example}")


def _key_parts(table: str, key: Any) -> tuple[tuple[str, Type], ...]:
    if isinstance(key, list | tuple):
        raise TraceError(
            f"table {table!r}: key={key!r}: the parts of a key have names; expected a dict, such as "
            f"{{'venue': 'string', 'symbol': 'string'}}"
        )
    parts = dict(key) if isinstance(key, Mapping) else {"key": key}
    if not parts:
        raise TraceError(f"table {table!r}: the key has no parts")
    for name, kind in parts.items():
        trace.check_name(name, f"table {table!r}: key part")
        parsed = types.parse(kind, f"table {table!r}: key")
        if parsed not in KEY_TYPES:
            raise TraceError(f"table {table!r}: a key (part) is int64 or string, not {parsed}")
        parts[name] = parsed
    return tuple(parts.items())


def _value_columns(table: str, columns: Mapping[str, Any], parts: tuple[tuple[str, Type], ...]) -> dict[str, Type]:
    _check_dict(columns, f"table {table!r}: columns", "types", "{'balance': 'int64'}")
    if not columns:
        raise TraceError(f"table {table!r} has no columns; give it at least one, such as {{'balance': 'int64'}}")
    kinds = {}
    for name, kind in columns.items():
        trace.check_name(name, f"table {table!r}: column")
        if name == "key" or name in dict(parts):
            raise TraceError(f"table {table!r}: a value column may not be called {name!r}, which is (part of) the key")
        parsed = types.parse(kind, f"table {table!r}: column {name!r}")
        if parsed.element is not None or parsed == types.NULL:
            raise TraceError(f"table {table!r}: column {name!r} can't be {parsed}")
        kinds[name] = parsed
    return kinds


def _default_values(table: str, kinds: Mapping[str, Type], default: Mapping[str, Any]) -> tuple[Any, ...]:
    _check_dict(default, f"table {table!r}: default", "values", "{'balance': 0}")
    for name in default:
        if name not in kinds:
            raise TraceError(trace.unknown_name(name, f"default of table {table!r}", kinds))
    missing = [name for name in kinds if name not in default]
    if missing:
        raise TraceError(f"table {table!r}: the default gives no value for {', '.join(missing)}")
    return tuple(_stored(table, name, kind, default[name]) for name, kind in kinds.items())


def _stored(table: str, name: str, kind: Type, value: Any) -> Any:
    """A default as the table stores it."""
    const = constant(value, f"table {table!r}: default of {name!r}")
    try:
        infer.check_assignable(const.type, kind, f"table {table!r}: column {name!r}")
    except infer.Mismatch as error:
        raise TraceError(str(error)) from None
    if const.type == types.NULL:
        raise TraceError(f"table {table!r}: column {name!r} can't be null")
    try:
        return values.assign(const.value, const.type, kind)
    except values.Failure:
        raise TraceError(f"table {table!r}: default {value!r} does not fit column {name!r} ({kind})") from None
