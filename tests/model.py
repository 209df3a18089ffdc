"""A generated app as a tree: what strategies.py draws, source() writes down as Python, and direct.py evaluates.

The tree is typed by its own rules, written from the semantics and not taken from morphspark.infer. Types are
`morphspark.types.Type`, as plain data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import functions

from morphspark.types import BOOL, FLOAT64, INT64, STRING, TIMESTAMP, Type, between

# ------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True)
class Expr:
    type: Type


@dataclass(frozen=True)
class Const(Expr):
    value: Any  # timestamps as microseconds, decimals as Decimal


@dataclass(frozen=True)
class Col(Expr):
    name: str


@dataclass(frozen=True)
class Var(Expr):
    """A name bound by Let, or by a loop."""

    name: str


@dataclass(frozen=True)
class RowOf:
    """table[key, …], or a handle bound to it before (then `keys` is None).

    With `among` the key is one of its candidates: those of a list column, or keys one by one.
    """

    table: str
    keys: tuple[Expr, ...] | None
    handle: str = ""
    among: Col | tuple[tuple[Expr, ...], ...] | None = None

    @property
    def candidates(self) -> list[Expr]:
        return [self.among] if isinstance(self.among, Col) else [part for one in self.among or () for part in one]


@dataclass(frozen=True)
class Read(Expr):
    row: RowOf
    column: str


@dataclass(frozen=True)
class Exists(Expr):
    row: RowOf


@dataclass(frozen=True)
class Op(Expr):
    """Everything with operands that are all evaluated: + - * / // %, comparisons, & | ^ ~, min, is_null, now, …"""

    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Where(Expr):
    condition: Expr
    chosen: Expr
    other: Expr


@dataclass(frozen=True)
class Reduce(Expr):
    """kind(value for names in ms.each(lists)); with `keep`, only the values for which it holds."""

    kind: str
    lists: tuple[Col, ...]
    names: tuple[str, ...]
    value: Expr
    keep: Expr | None = None


@dataclass(frozen=True)
class ReduceOf(Expr):
    """kind([value, …]): a reduction of what a Python list holds; an empty one only where the result has a type."""

    kind: str
    values: tuple[Expr, ...]

    @property
    def taken(self) -> Type:
        return unify([value.type for value in self.values]) if self.values else INT64


@dataclass(frozen=True)
class Call(Expr):
    """A user function (functions.py); of several results, one."""

    name: str
    args: tuple[Expr, ...]
    part: int | None = None


@dataclass(frozen=True)
class Window(Expr):
    """kind of a column over the window of a row, or of the rows that elements of a list column name."""

    kind: str
    row: RowOf  # with `rows`, its key is the name that stands for an element
    column: str
    span: int  # back from now; negative: so many versions
    timed: bool  # the order column is a timestamp
    rows: Col | None = None


# ------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Let:
    name: str
    value: Expr | RowOf


@dataclass(frozen=True)
class Force:
    """A use of a name that counts whatever the rest does, so that its value is needed where it is bound."""

    name: str


@dataclass(frozen=True)
class Write:
    row: RowOf
    column: str
    type: Type
    value: Expr


@dataclass(frozen=True)
class Augment:
    """row.column op= value"""

    row: RowOf
    column: str
    type: Type
    op: str
    result: Type
    value: Expr


@dataclass(frozen=True)
class Insert:
    table: str
    keys: tuple[Expr, ...]
    values: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Delete:
    table: str
    keys: tuple[Expr, ...]


@dataclass(frozen=True)
class Require:
    condition: Expr
    message: str


@dataclass(frozen=True, eq=False)
class When:
    condition: Expr
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Each:
    lists: tuple[Col, ...]
    names: tuple[str, ...]
    body: tuple[Any, ...]


# ------------------------------------------------------------------------------------------------------- apps


@dataclass(frozen=True)
class TableModel:
    name: str
    key: tuple[tuple[str, Type], ...]
    columns: tuple[tuple[str, Type], ...]
    default: tuple[Any, ...] | None


@dataclass(frozen=True)
class TransactionModel:
    name: str
    on: tuple[tuple[str, Any], ...]
    body: tuple[Any, ...]
    returns: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class AppModel:
    order_by: tuple[str, ...]
    events: dict[str, Type]  # every column that may be used
    declared: bool
    late: str
    tables: tuple[TableModel, ...]
    transactions: tuple[TransactionModel, ...]
    forced: bool = True  # every name used in a side of ms.where is needed where it is bound
    used: frozenset[str] = field(default=frozenset())

    def table(self, name: str) -> TableModel:
        return next(one for one in self.tables if one.name == name)


# ------------------------------------------------------------------------------------------------------ typing


def unify(kinds: list[Type]) -> Type:
    """The type that holds all of these: float64 wins, then the decimal with most digits behind the point."""
    first = kinds[0]
    if all(kind == first for kind in kinds):
        return first
    assert all(kind.is_number for kind in kinds), kinds
    return FLOAT64 if FLOAT64 in kinds else between(max(kind.scale for kind in kinds))


def arithmetic_type(op: str, left: Type, right: Type) -> Type | None:
    """The type of left op right; None where it would have too many digits."""
    if TIMESTAMP in (left, right):
        return INT64 if left == right else TIMESTAMP
    if left == STRING:
        return STRING
    if FLOAT64 in (left, right):
        return FLOAT64
    if left == right == INT64:
        return FLOAT64 if op == "/" else INT64
    scales = left.scale, right.scale
    scale = {"*": sum(scales), "/": max(scales) + 6, "//": 0}.get(op, max(scales))
    return between(scale) if scale <= 38 else None


def reduced_type(kind: str, value: Type) -> Type:
    if kind in ("any", "all"):
        return BOOL
    if kind == "count":
        return INT64
    if kind == "mean":
        return between(value.scale + 6) if value.name == "decimal" else FLOAT64
    return between(value.scale) if kind == "sum" and value.name == "decimal" else value


def window_type(kind: str, column: Type) -> Type:
    if kind in ("count", "nunique"):
        return INT64
    return column if kind in ("first", "last") else reduced_type(kind, column)


def walk(node: Any, side: bool = False):
    """Every expression in a tree, with whether it stands in a side of ms.where."""
    if isinstance(node, RowOf):
        for key in (*(node.keys or ()), *node.candidates):
            yield from walk(key, side)
        if node.handle:
            yield Var(Type("row"), node.handle), side
        return
    yield node, side
    if isinstance(node, Window) and node.rows is not None:
        yield from walk(node.rows, side)
    elif isinstance(node, Read | Exists | Window):
        yield from walk(node.row, side)
    elif isinstance(node, Op | Call):
        for arg in node.args:
            yield from walk(arg, side)
    elif isinstance(node, Where):
        yield from walk(node.condition, side)
        yield from walk(node.chosen, True)
        yield from walk(node.other, True)
    elif isinstance(node, Reduce):
        for one in (*node.lists, node.value, *([node.keep] if node.keep is not None else [])):
            yield from walk(one, side)
    elif isinstance(node, ReduceOf):
        for one in node.values:
            yield from walk(one, side)


def parts(statement: Any) -> list[Any]:
    """The expressions and rows that stand in a statement itself, not in its body."""
    if isinstance(statement, Let):
        return [statement.value]
    if isinstance(statement, Write | Augment):
        return [statement.row, statement.value]
    if isinstance(statement, Insert):
        return [*statement.keys, *(value for _, value in statement.values)]
    if isinstance(statement, Delete):
        return list(statement.keys)
    if isinstance(statement, Require | When):
        return [statement.condition]
    return list(statement.lists) if isinstance(statement, Each) else []


def statements(body: tuple[Any, ...], path: tuple[Any, ...] = ()):
    """Every statement in program order, with the `when` blocks around it."""
    for statement in body:
        yield statement, path
        if isinstance(statement, When):
            yield from statements(statement.body, (*path, statement))
        elif isinstance(statement, Each):
            yield from statements(statement.body, path)


def columns_used(app: AppModel) -> frozenset[str]:
    found = set(app.order_by)
    for transaction in app.transactions:
        found.update(name for name, _ in transaction.on)
        roots = [part for statement, _ in statements(transaction.body) for part in parts(statement)]
        for root in (*roots, *(value for _, value in transaction.returns)):
            found.update(one.name for one, _ in walk(root) if isinstance(one, Col))
    return frozenset(found)


# ------------------------------------------------------------------------------------------------------ source

_KEPT = """
def kept(pairs):
    for keep, value in pairs:
        with ms.when(keep):
            yield value
"""


def source(app: AppModel) -> str:
    """The app as a user would write it: the lines of a scenario's `app` section."""
    events = ""
    if app.declared:
        events = ", events={" + ", ".join(f'"{name}": "{kind}"' for name, kind in sorted(app.events.items())) + "}"
    order = repr(app.order_by[0] if len(app.order_by) == 1 else list(app.order_by) or None)
    lines = [f'app = ms.App("generated", order_by={order}, late="{app.late}"{events})']
    for table in app.tables:
        lines.append(_table_source(table))
    text = [_transaction_source(one) for one in app.transactions]
    if any("kept(" in one for one in text):
        lines.append(_KEPT)
    lines += [one.source for name, one in functions.FUNCTIONS.items() if any(f"{name}(" in body for body in text)]
    return "\n".join([*lines, *text])


def _table_source(table: TableModel) -> str:
    kinds = ", ".join(f'"{name}": "{kind}"' for name, kind in table.key)
    key = f'"{table.key[0][1]}"' if table.key[0][0] == "key" else "{" + kinds + "}"
    columns = ", ".join(f'"{name}": "{kind}"' for name, kind in table.columns)
    default = ""
    if table.default is not None:
        pairs = zip(table.columns, table.default, strict=True)
        default = ", default={" + ", ".join(f'"{n}": {_const(v, k)}' for (n, k), v in pairs) + "}"
    return f'{table.name} = app.table("{table.name}", key={key}, columns={{{columns}}}{default})'


def _transaction_source(transaction: TransactionModel) -> str:
    on = ", ".join(f"{name}={value!r}" for name, value in transaction.on)
    lines = ["", f"@app.on({on})", f"def {transaction.name}(e):"]
    lines += _body_lines(transaction.body, 1)
    if transaction.returns:
        lines.append("    return {")
        lines += [f'        "{name}": {text(value)},' for name, value in transaction.returns]
        lines.append("    }")
    elif not transaction.body:
        lines.append("    pass")
    return "\n".join(lines)


def _body_lines(body: tuple[Any, ...], depth: int) -> list[str]:
    lines = []
    for statement in body:
        lines.append("    " * depth + _statement_line(statement))
        if isinstance(statement, When | Each):
            lines += _body_lines(statement.body, depth + 1) or ["    " * (depth + 1) + "pass"]
    return lines


def _statement_line(statement: Any) -> str:
    if isinstance(statement, Let):
        return f"{statement.name} = {text(statement.value)}"
    if isinstance(statement, Force):
        return f'ms.require({statement.name}.is_null() | True, "never")'
    if isinstance(statement, Write):
        return f"{text(statement.row)}.{statement.column} = {text(statement.value)}"
    if isinstance(statement, Augment):
        return f"{text(statement.row)}.{statement.column} {statement.op}= {text(statement.value)}"
    if isinstance(statement, Insert):
        values = "".join(f", {name}={text(value)}" for name, value in statement.values)
        return f"{statement.table}.insert({_key(statement.keys)}{values})"
    if isinstance(statement, Delete):
        return f"{statement.table}.delete({_key(statement.keys)})"
    if isinstance(statement, Require):
        return f"ms.require({text(statement.condition)}, {statement.message!r})"
    if isinstance(statement, When):
        return f"with ms.when({text(statement.condition)}):"
    return f"for {', '.join(statement.names)} in ms.each({', '.join(map(text, statement.lists))}):"


def _row_key(row: RowOf) -> str:
    assert row.keys is not None
    if row.among is None:
        return ", ".join(map(text, row.keys))
    among = text(row.among) if isinstance(row.among, Col) else f"[{', '.join(map(_key, row.among))}]"
    return f"ms.key({_key(row.keys)}, among={among})"


def _key(keys: tuple[Expr, ...]) -> str:
    return text(keys[0]) if len(keys) == 1 else "(" + ", ".join(map(text, keys)) + ")"


def text(node: Any) -> str:
    if isinstance(node, Const):
        return _const(node.value, node.type)
    if isinstance(node, Col):
        return f"e.{node.name}"
    if isinstance(node, Var):
        return node.name
    if isinstance(node, RowOf):
        return node.handle or f"{node.table}[{_row_key(node)}]"
    if isinstance(node, Read):
        return f"{text(node.row)}.{node.column}"
    if isinstance(node, Exists):
        return f"{text(node.row)}.exists()"
    if isinstance(node, Window):
        return f"{_window_text(node)}.{node.column}.{node.kind}()"
    if isinstance(node, Where):
        return f"ms.where({text(node.condition)}, {text(node.chosen)}, {text(node.other)})"
    if isinstance(node, Reduce):
        return _reduce_text(node)
    if isinstance(node, Call):
        part = "" if node.part is None else f"[{node.part}]"
        return f"{node.name}({', '.join(map(text, node.args))}){part}"
    if isinstance(node, ReduceOf):
        return f"ms.{node.kind}([{', '.join(map(text, node.values))}])"
    assert isinstance(node, Op)
    args = [text(arg) for arg in node.args]
    if node.op in ("min", "max", "coalesce", "abs", "now", "random"):
        return f"ms.{node.op}({', '.join(args)})"
    if node.op == "is_null":
        return f"{args[0]}.is_null()"
    return f"({node.op}{args[0]})" if len(args) == 1 else f"({args[0]} {node.op} {args[1]})"


def _window_text(node: Window) -> str:
    span = f"rows={-node.span}" if node.span < 0 else f'"{node.span} us"' if node.timed else str(node.span)
    if node.rows is None:
        return f"{text(node.row)}.over({span})"
    return f"ms.window([{text(node.row)} for {text(node.row.keys[0])} in ms.each({text(node.rows)})], {span})"


def _reduce_text(node: Reduce) -> str:
    lists = ", ".join(map(text, node.lists))
    if node.keep is None and isinstance(node.value, Var) and node.names == (node.value.name,):
        return f"ms.{node.kind}({lists})"
    loop = f"for {', '.join(node.names)} in ms.each({lists})"
    if node.keep is None:
        return f"ms.{node.kind}({text(node.value)} {loop})"
    return f"ms.{node.kind}(kept(({text(node.keep)}, {text(node.value)}) {loop}))"


def _const(value: Any, kind: Type) -> str:
    if kind == TIMESTAMP:
        return f"(datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds={value}))"
    if isinstance(value, Decimal):
        return f'Decimal("{value}")'
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    negative = isinstance(value, int | float) and not isinstance(value, bool) and math.copysign(1, value) < 0
    return f"({value!r})" if negative else repr(value)
