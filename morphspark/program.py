"""A transaction as data: what the tracer writes and both engines execute.

A transaction is a straight list of steps in the order of the user's lines. A step names an operation, its
operands, and the guard under which it happens; step i's result is `Ref(i)`. There are no jumps: a loop is
`each … end`, a condition is a guard. The list is flat however deep the user's expressions are.

    values       add sub mul div floordiv mod neg abs min max          eq ne lt le gt ge
                 and or xor not where coalesce is_null                 begin … reduce (a reduction)
    functions    call (of the user's)   result (one of several)
    state        row, choose (a handle)   read   exists                write   insert   delete
    windows      window (an aggregate over versions of a row)          rows … collect (of several rows)
    control      require   when   each   end   accumulate
    benchmarks   work (its argument, after some arithmetic)

Guards. A guard is a path of (condition, wanted) pairs, outermost first; a step happens if every condition on
the path has the wanted value. `analyse_guards` gives each step its guard from two rules of the semantics:
`with ms.when(c)` makes what is inside conditional (the condition on the path is the `when` step), and
`ms.where(c, a, b)` evaluates only the chosen side (the condition on the path is c).
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import types
from .spans import Kept, Span, Trigger
from .types import Type

# ---------------------------------------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of an earlier step."""

    step: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the event."""

    name: str


@dataclass(frozen=True, slots=True)
class Element:
    """The current element of list `position` of the loop that step `loop` opened."""

    loop: int
    position: int


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: timestamps as microseconds, decimals as the unscaled integer, None as null."""

    type: Type
    value: Any

    def __eq__(self, other: object) -> bool:
        # True == 1 == 1.0 in Python, but not in a program; repr tells -0.0 from 0.0 and NaN equals NaN.
        return isinstance(other, Const) and self.type == other.type and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((self.type, repr(self.value)))


Operand = Ref | Column | Element | Const
Guard = tuple[tuple[Operand, bool], ...]

STATEMENTS = frozenset({"write", "insert", "delete", "require", "when", "each", "end", "accumulate", "collect"})
ACCESSES = frozenset({"read", "exists", "write", "insert", "delete"})


@dataclass(frozen=True, slots=True)
class Step:
    op: str
    args: tuple[Operand, ...] = ()
    guard: Guard = ()
    table: str = ""  # of row, and of every access to one
    columns: tuple[str, ...] = ()  # read, write: one; insert: all, in the order of args[1:]
    # args of choose: the key's parts, then candidates: lists of keys, or rows
    # require: the message; begin, accumulate, reduce: the kind of reduction; call: the function; result: which; window:
    # aggregate, span; work: kind:rounds
    text: str = ""
    source: str = field(default="", compare=False)  # "file:line" of the user's code, for errors only


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """A user function that a transaction calls (udf.py)."""

    name: str
    kind: str  # "compiled", "vector" or "python"
    results: tuple[Type, ...]
    hash: str  # of its source and what it takes from outside
    live: Any = field(default=None, compare=False, repr=False)  # itself, in the process that defined it


@dataclass(frozen=True, slots=True)
class Transaction:
    name: str
    on: tuple[tuple[str, tuple[Const, ...]], ...]  # column → accepted values; all must match
    steps: tuple[Step, ...]
    returns: tuple[tuple[str, Operand], ...]
    functions: tuple[FunctionSpec, ...] = ()
    trigger: Trigger | None = None  # what starts it, if no event does

    def function_of(self, step: Step) -> FunctionSpec:
        """What a `call` calls, or whose `result` it is."""
        if step.op == "result":
            step = self.steps[step.args[0].step]  # type: ignore[union-attr]
        return next(one for one in self.functions if one.name == step.text)

    @property
    def event_columns(self) -> list[str]:
        """Every event column that this transaction needs, in order of first use; of a firing, its own columns."""
        found = dict.fromkeys(name for name, _ in self.on)
        for step in self.steps:
            found.update(dict.fromkeys(arg.name for arg in step.args if isinstance(arg, Column)))
            found.update(dict.fromkeys(c.name for c, _ in step.guard if isinstance(c, Column)))
        found.update(dict.fromkeys(arg.name for _, arg in self.returns if isinstance(arg, Column)))
        return list(found)

    @property
    def read_set(self) -> list[str]:
        """The rows and columns that may be read, as text: `accounts[e.account].balance`."""
        return self._accessed(("read", "exists", "window"))

    @property
    def write_set(self) -> list[str]:
        return self._accessed(("write", "insert", "delete"))

    def _accessed(self, ops: tuple[str, ...]) -> list[str]:
        show = Renderer(self)
        return list(dict.fromkeys(show.access(step) for step in self.steps if step.op in ops))


@dataclass(frozen=True, slots=True)
class TableSpec:
    name: str
    key: tuple[tuple[str, Type], ...]  # one part called "key", or named parts
    columns: tuple[tuple[str, Type], ...]
    default: tuple[Any, ...] | None  # one stored value per column, or None: rows must be inserted
    retain: Span | None = None  # how long versions are kept, as declared
    kept: Kept | None = None  # what the program's windows need; None: no version outlives its epoch

    def column_index(self, name: str) -> int:
        return [column for column, _ in self.columns].index(name)


def declared(table: TableSpec) -> TableSpec:
    """The table without what the rest of its program adds."""
    return replace(table, kept=None)


@dataclass(frozen=True)
class Program:
    name: str
    order_by: tuple[str, ...]
    seed: int
    tables: tuple[TableSpec, ...]
    transactions: tuple[Transaction, ...]

    def table(self, name: str) -> TableSpec:
        return next(table for table in self.tables if table.name == name)

    @property
    def event_columns(self) -> list[str]:
        """Every event column that the engine must read; all others only pass through."""
        found = dict.fromkeys(self.order_by)
        for transaction in self.transactions:
            if transaction.trigger is None:
                found.update(dict.fromkeys(transaction.event_columns))
        return list(found)

    @property
    def functions(self) -> list[FunctionSpec]:
        return list(dict.fromkeys(one for transaction in self.transactions for one in transaction.functions))

    @property
    def has_triggers(self) -> bool:
        return any(one.trigger is not None for one in self.transactions)

    @property
    def hash(self) -> str:
        """A stable name for this program: equal programs have equal hashes, in every process."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        return json.dumps(_program_to_data(self), separators=(",", ":"), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Program:
        return _program_from_data(json.loads(text))

    def __str__(self) -> str:
        return "\n".join(_program_lines(self))


# ------------------------------------------------------------------------------------------------ guards


def analyse_guards(steps: list[Step], returns: list[tuple[str, Operand]]) -> list[Step]:
    """Give every step the guard of the uses of its result.

    On entry a step's guard is the `with ms.when` path it stands in. A statement keeps it. A value happens where
    it is used: the common part of all its uses' guards, but never under a condition that stands after it, nor
    inside a `when` block it stands outside of. So `ms.where(x != 0, a / x, 0)` divides only if x != 0, and a
    value computed inside a `when` block but used after it is computed always. A reduction takes its values in
    under the guard of its result, and under the `when` blocks inside it. One backward pass: all uses of a step
    stand after it.
    """
    guards: list[Guard] = [step.guard for step in steps]
    uses: list[list[Guard]] = [[] for _ in steps]
    reduced: dict[int, Guard] = {}  # a reduction's begin → the guard of its result
    loops: list[list[Guard]] = []  # the guards inside each loop that is open, seen from the end
    for _, operand in returns:
        _use(uses, operand, ())
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        if step.op == "end":
            loops.append([])
            continue
        if step.op == "result" and not uses[index]:
            continue  # one of several that a function gives: it stands wherever the call does
        if step.op == "each":
            guards[index] = _standing_before(_common(loops.pop() or [step.guard]), step.guard, index, steps)
        elif step.op == "accumulate":
            begin = step.args[1].step  # type: ignore[union-attr]
            guards[index] = (*reduced[begin], *step.guard[len(steps[begin].guard) :])
        elif step.op == "collect":
            windows = uses[step.args[1].step]  # type: ignore[union-attr]
            guards[index] = _standing_before(_common(windows or [step.guard]), step.guard, index, steps)
        elif step.op not in STATEMENTS or step.op == "when":
            guards[index] = _standing_before(_common(uses[index] or [step.guard]), step.guard, index, steps)
            if step.op == "reduce":
                reduced[step.args[0].step] = guards[index]  # type: ignore[union-attr]
        if loops:
            loops[-1].append(guards[index])
        _use_all(uses, step, guards[index])
        _use_blocks(uses, guards[index], steps)
    for end, each in loop_starts(steps).items():
        guards[end] = guards[each]
    for index, step in enumerate(steps):
        if step.op == "result" and not uses[index]:
            guards[index] = guards[step.args[0].step]  # type: ignore[union-attr]
    return [replace(step, guard=guard) for step, guard in zip(steps, guards, strict=True)]


def loop_starts(steps: Sequence[Step]) -> dict[int, int]:
    """Each `end`'s index → the index of its `each`."""
    starts, stack = {}, []
    for index, step in enumerate(steps):
        if step.op == "each":
            stack.append(index)
        elif step.op == "end":
            starts[index] = stack.pop()
    return starts


def _use_all(uses: list[list[Guard]], step: Step, guard: Guard) -> None:
    if step.op == "where":
        condition, chosen, other = step.args
        _use(uses, condition, guard)
        _use(uses, chosen, _narrowed(guard, (condition, True)))
        _use(uses, other, _narrowed(guard, (condition, False)))
        return
    for operand in step.args:
        _use(uses, operand, guard)


def _use_blocks(uses: list[list[Guard]], guard: Guard, steps: list[Step]) -> None:
    """A step inside a `when` block needs the block's condition, wherever the path comes to it."""
    for depth, (condition, _) in enumerate(guard):
        if isinstance(condition, Ref) and steps[condition.step].op == "when":
            uses[condition.step].append(guard[:depth])


def _narrowed(guard: Guard, pair: tuple[Operand, bool]) -> Guard:
    return guard if pair in guard else (*guard, pair)


def _use(uses: list[list[Guard]], operand: Operand, guard: Guard) -> None:
    if isinstance(operand, Ref):
        uses[operand.step].append(guard)


def _common(paths: list[Guard]) -> Guard:
    shortest = min(paths, key=len)
    for depth, pair in enumerate(shortest):
        if any(path[depth] != pair for path in paths):
            return shortest[:depth]
    return shortest


def _standing_before(wanted: Guard, block: Guard, index: int, steps: list[Step]) -> Guard:
    """Cut a guard at the first condition that is not known yet, or that is a `when` block around others only."""
    for depth, (condition, _) in enumerate(wanted):
        inside_block = depth < len(block) and block[depth] == wanted[depth]
        if not inside_block and not _known_before(condition, index, steps):
            return wanted[:depth]
    return wanted


def _known_before(condition: Operand, index: int, steps: list[Step]) -> bool:
    if isinstance(condition, Ref):
        return condition.step < index and steps[condition.step].op != "when"
    return not isinstance(condition, Element) or condition.loop < index


# -------------------------------------------------------------------------------------- reasons and printing

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_TEXT_CHARACTERS_MAX = 80


class Renderer:
    """A transaction's expressions as the user would write them, cut to a readable length."""

    def __init__(self, transaction: Transaction):
        self._steps = transaction.steps
        self._of_trigger = transaction.trigger is not None
        self._reduced = {step.args[1]: step.args[0] for step in self._steps if step.op == "accumulate"}
        self._texts: dict[int, str] = {}
        for index in range(len(self._steps)):  # in order, so operands are there: no recursion
            self._texts[index] = self._clip(self._step(self._steps[index]))

    def operand(self, operand: Operand) -> str:
        if isinstance(operand, Column):
            if self._of_trigger:
                return operand.name
            return f"e.{operand.name}" if operand.name.isidentifier() else f"e[{operand.name!r}]"
        if isinstance(operand, Element):
            return f"each({self.operand(self._steps[operand.loop].args[operand.position])})"
        if isinstance(operand, Ref):
            return self._texts[operand.step]
        return _const_text(operand)

    def name(self, operand: Operand) -> str:
        """What a `null:` reason calls this operand: the event column it comes from, else its text."""
        if isinstance(operand, Column):
            return operand.name
        if isinstance(operand, Element):
            return self.name(self._steps[operand.loop].args[operand.position])
        return self.operand(operand)

    def step(self, index: int) -> str:
        return self._texts[index]

    def access(self, step: Step) -> str:
        row = self.operand(step.args[0])
        return row if step.op in ("exists", "delete") else f"{row}.{', '.join(step.columns)}"

    def _step(self, step: Step) -> str:
        args = [self.operand(arg) for arg in step.args]
        if step.op in _SIGNS:
            return f"({args[0]} {_SIGNS[step.op]} {args[1]})"
        if step.op == "row":
            return f"{step.table}[{', '.join(args)}]"
        if step.op == "choose":
            return f"{step.table}[key({', '.join(args)})]"
        if step.op == "read":
            return f"{args[0]}.{step.columns[0]}"
        if step.op == "window":
            kind, _, span = step.text.partition(" ")
            return f"{args[0]}.over({Span.from_text(span)}).{step.columns[0]}.{kind}()"
        if step.op == "rows":
            return f"window({step.table})"
        if step.op == "reduce":
            reduced = self._reduced.get(step.args[0])  # none of an empty Python list
            return f"{step.text}({'' if reduced is None else self.operand(reduced)})"
        if step.op in ("when", "begin"):
            return args[0] if args else step.text
        if step.op == "call":
            return f"{step.text}({', '.join(args)})"
        if step.op == "result":
            return f"{args[0]}[{step.text}]"
        prefix = {"neg": "-", "not": "~"}.get(step.op)
        if prefix:
            return f"{prefix}{args[0]}"
        if step.op in ("exists", "is_null"):
            return f"{args[0]}.{step.op}()"
        return f"{step.op}({', '.join(args)})"

    @staticmethod
    def _clip(text: str) -> str:
        return text if len(text) <= _TEXT_CHARACTERS_MAX else text[: _TEXT_CHARACTERS_MAX - 1] + "…"


def reasons(transaction: Transaction) -> list[dict[str, str]]:
    """For each step, the `_reason` of every way in which it can fail: failure → text.

    Failures: `null0`, `null1`, … (operand i is null), `overflow`, `division`, `key`, `outside`, `missing`,
    `exists`, `list`, `require`, `udf` (where the function itself says no more). Both engines take their texts from
    here.
    """
    show = Renderer(transaction)
    return [_step_reasons(step, index, show) for index, step in enumerate(transaction.steps)]


def _step_reasons(step: Step, index: int, show: Renderer) -> dict[str, str]:
    found = {f"null{i}": f"null: {show.name(arg)}" for i, arg in enumerate(step.args)}
    text = show.step(index).removeprefix("(").removesuffix(")") if step.op in _SIGNS else show.step(index)
    found["overflow"] = f"overflow: {text}"
    found["division"] = f"division: {text}"
    if step.op == "window" or step.op in ACCESSES:
        found["key"] = f"key: null key of {step.table}"
        found["outside"] = f"outside: {step.table}"
    if step.op in ("write", "insert"):
        found["overflow"] = f"overflow: {step.table}.{', '.join(step.columns)}"
    if step.op in ACCESSES:
        found["missing"] = f"missing: {step.table}"
        found["exists"] = f"exists: {step.table}"
    if step.op == "each":
        found["list"] = f"list: {', '.join(show.name(arg) for arg in step.args)} differ in length"
    if step.op == "call":
        found["udf"] = f"udf: {step.text}: failed"
    if step.op == "require":
        found["require"] = f"require: {step.text}"
    return found


def _const_text(const: Const) -> str:
    if const.type == types.TIMESTAMP:
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return str(epoch + datetime.timedelta(microseconds=const.value))
    if const.type.name == "decimal":
        sign, digits = ("-" if const.value < 0 else ""), str(abs(const.value)).rjust(const.type.scale + 1, "0")
        point = len(digits) - const.type.scale
        return sign + digits[:point] + ("." + digits[point:] if const.type.scale else "")
    return json.dumps(const.value) if isinstance(const.value, str) else repr(const.value)


def _program_lines(program: Program) -> Iterator[str]:
    order = ", ".join(program.order_by) or "arrival"
    yield f"program {program.name}  order by {order}"
    for table in program.tables:
        key = ", ".join(f"{name}: {kind}" for name, kind in table.key)
        columns = ", ".join(f"{name}: {kind}" for name, kind in table.columns)
        default = "" if table.default is None else f"  default {_default_text(table)}"
        retain = "" if table.retain is None else f"  retain {table.retain}"
        yield f"table {table.name}[{key}] {{{columns}}}{default}{retain}"
    for transaction in program.transactions:
        yield ""
        yield from _transaction_lines(transaction)


def _default_text(table: TableSpec) -> str:
    assert table.default is not None
    return ", ".join(_const_text(Const(t, v)) for (_, t), v in zip(table.columns, table.default, strict=True))


def _transaction_lines(transaction: Transaction) -> Iterator[str]:
    show = Renderer(transaction)
    conditions = " and ".join(
        f"{column} in ({', '.join(map(_const_text, values))})" if len(values) != 1 else
        f"{column} == {_const_text(values[0])}"
        for column, values in transaction.on
    )  # fmt: skip
    started = f"on {conditions or 'every event'}" if transaction.trigger is None else str(transaction.trigger)
    yield f"transaction {transaction.name}  {started}"
    yield f"  reads  {', '.join(transaction.read_set) or 'nothing'}"
    yield f"  writes {', '.join(transaction.write_set) or 'nothing'}"
    depth = 0
    for index, step in enumerate(transaction.steps):
        if step.op == "end":
            depth -= 1
            continue
        yield f"  {index:4d}  {'  ' * depth}{_step_line(step, index, show)}{_guard_text(step, show)}"
        depth += step.op == "each"
    for name, operand in transaction.returns:
        yield f"  return {name} = {show.operand(operand)}"


def _step_line(step: Step, index: int, show: Renderer) -> str:
    args = [show.operand(arg) for arg in step.args]
    if step.op == "write":
        return f"{args[0]}.{step.columns[0]} = {args[1]}"
    if step.op == "insert":
        pairs = ", ".join(f"{name}={value}" for name, value in zip(step.columns, args[1:], strict=True))
        return f"insert {args[0]} {pairs}"
    if step.op == "require":
        return f"require {args[0]}  {json.dumps(step.text)}"
    if step.op == "each":
        return f"each {', '.join(args)}:"
    if step.op in ("delete", "when"):
        return f"{step.op} {args[0]}"
    if step.op == "accumulate":
        return f"{step.text} += {args[0]}"
    if step.op == "collect":
        return f"{args[1]} takes {args[0]}"
    return f"{step.op:<8} {show.step(index)}"


def _guard_text(step: Step, show: Renderer) -> str:
    if not step.guard:
        return ""
    return "   if " + " & ".join(("" if wanted else "~") + show.operand(c) for c, wanted in step.guard)


# -------------------------------------------------------------------------------------------------- JSON


def _operand_to_data(operand: Operand) -> Any:
    if isinstance(operand, Ref):
        return operand.step
    if isinstance(operand, Column):
        return {"column": operand.name}
    if isinstance(operand, Element):
        return {"loop": operand.loop, "position": operand.position}
    value = operand.value
    if isinstance(value, float):
        value = value.hex()  # JSON has no NaN or infinity, and hex is exact
    return {"type": str(operand.type), "value": value}


def _operand_from_data(data: Any) -> Operand:
    if isinstance(data, int):
        return Ref(data)
    if "column" in data:
        return Column(data["column"])
    if "loop" in data:
        return Element(data["loop"], data["position"])
    kind = _type_from_text(data["type"])
    value = data["value"]
    return Const(kind, float.fromhex(value) if kind == types.FLOAT64 else value)


def _type_from_text(text: str) -> Type:
    if text.startswith("decimal("):  # constants may have more digits than columns
        precision, scale = text[len("decimal(") : -1].split(",")
        return types.decimal(int(precision), int(scale))
    return types.parse(text, "program")


def _step_to_data(step: Step) -> dict[str, Any]:
    data: dict[str, Any] = {"op": step.op, "args": [_operand_to_data(arg) for arg in step.args]}
    if step.guard:
        data["guard"] = [[_operand_to_data(condition), wanted] for condition, wanted in step.guard]
    if step.table:
        data["table"] = step.table
    if step.columns:
        data["columns"] = list(step.columns)
    if step.text:
        data["text"] = step.text
    return data


def _step_from_data(data: dict[str, Any]) -> Step:
    return Step(
        op=data["op"],
        args=tuple(map(_operand_from_data, data["args"])),
        guard=tuple((_operand_from_data(condition), wanted) for condition, wanted in data.get("guard", ())),
        table=data.get("table", ""),
        columns=tuple(data.get("columns", ())),
        text=data.get("text", ""),
    )


def _program_to_data(program: Program) -> dict[str, Any]:
    return {
        "format": 1,
        "name": program.name,
        "order_by": list(program.order_by),
        "seed": program.seed,
        "tables": [
            {
                "name": table.name,
                "key": [[name, str(kind)] for name, kind in table.key],
                "columns": [[name, str(kind)] for name, kind in table.columns],
                "default": None if table.default is None else [
                    _operand_to_data(Const(kind, value))["value"]
                    for (_, kind), value in zip(table.columns, table.default, strict=True)
                ],
                **({} if table.retain is None else {"retain": table.retain.text}),
                **({} if table.kept is None else {"kept": table.kept.to_data()}),
            }
            for table in program.tables
        ],
        "transactions": [
            {
                **_functions_to_data(transaction),
                "name": transaction.name,
                "on": [[column, [_operand_to_data(v) for v in values]] for column, values in transaction.on],
                "steps": [_step_to_data(step) for step in transaction.steps],
                "returns": [[name, _operand_to_data(operand)] for name, operand in transaction.returns],
                **({} if transaction.trigger is None else {"trigger": transaction.trigger.to_data()}),
            }
            for transaction in program.transactions
        ],
    }  # fmt: skip


def _functions_to_data(transaction: Transaction) -> dict[str, Any]:
    if not transaction.functions:
        return {}
    return {"functions": [[one.name, one.kind, list(map(str, one.results)), one.hash] for one in transaction.functions]}


def _function_from_data(data: list[Any]) -> FunctionSpec:
    name, kind, results, hashed = data
    return FunctionSpec(name, kind, tuple(map(_type_from_text, results)), hashed)


def _program_from_data(data: dict[str, Any]) -> Program:
    if data.get("format") != 1:
        raise ValueError(f"program format {data.get('format')!r} is not known to this version (expected 1)")
    return Program(
        name=data["name"],
        order_by=tuple(data["order_by"]),
        seed=data["seed"],
        tables=tuple(_table_from_data(table) for table in data["tables"]),
        transactions=tuple(
            Transaction(
                name=one["name"],
                on=tuple((column, tuple(map(_operand_from_data, values))) for column, values in one["on"]),
                steps=tuple(map(_step_from_data, one["steps"])),
                returns=tuple((name, _operand_from_data(operand)) for name, operand in one["returns"]),
                functions=tuple(map(_function_from_data, one.get("functions", ()))),
                trigger=Trigger.from_data(one["trigger"]) if "trigger" in one else None,
            )
            for one in data["transactions"]
        ),
    )


def _table_from_data(data: dict[str, Any]) -> TableSpec:
    columns = tuple((name, _type_from_text(kind)) for name, kind in data["columns"])
    default = data["default"]
    if default is not None:
        default = tuple(
            float.fromhex(value) if kind == types.FLOAT64 else value
            for (_, kind), value in zip(columns, default, strict=True)
        )
    return TableSpec(
        name=data["name"],
        key=tuple((name, _type_from_text(kind)) for name, kind in data["key"]),
        columns=columns,
        default=default,
        retain=Span.from_text(data["retain"]) if "retain" in data else None,
        kept=Kept.from_data(data["kept"]) if "kept" in data else None,
    )
