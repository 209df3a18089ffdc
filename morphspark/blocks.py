"""What Python does inside `with ms.when(…):` and a trace passes without a sign, found in the source.

A trace runs the block once, whatever the condition will be. Writes to tables become conditional; a `return`, or a
name that gets another value, would happen always. So these are looked for in the function's syntax tree, when the
block is entered:

    jumps       return, break and continue that leave the block
    rebindings  names that have a value before the block, get another inside, and are read after it

A name that is bound inside for the first time may be read after it: its value is computed always, and there is no
other that could be meant.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class NoSource(Exception):
    """The source of a function can't be read."""


@functools.lru_cache(maxsize=1024)
def mistakes(code: CodeType, line: int) -> tuple[str, ...]:
    """What is wrong with the `with ms.when` that a function enters at a line of its own, counted from 1."""
    scope = _scope(code)
    found = []
    for block in (node for node in ast.walk(scope) if isinstance(node, ast.With)):
        if not block.lineno - 1 <= line <= block.items[-1].context_expr.end_lineno - 1:  # type: ignore[operator]
            continue
        found += [
            f"line {jump.lineno - 1} of {code.co_name}: `{type(jump).__name__.lower()}` inside `with ms.when(…):` "
            f"would happen always, not only when the condition holds; use ms.where(c, a, b) for a conditional value"
            for jump in _jumps(block.body)
        ]
        found += [
            f"line {store.lineno - 1} of {code.co_name}: `{store.id} = …` inside `with ms.when(…):` would happen "
            f"always, not only when the condition holds, and {store.id} is used after the block; write "
            f"{store.id} = ms.where(c, …, {store.id}) in its place"
            for store in _rebindings(scope, block)
        ]
    return tuple(found)


def _scope(code: CodeType) -> ast.AST:
    """The function (or module) of this code; line n of its source has number n + 1."""
    try:
        # Inside an `if`, so that an indented function parses as it stands; dedenting would trip over its strings.
        tree = ast.parse("if True:\n" + textwrap.indent(inspect.getsource(code), " "))
    except (OSError, TypeError, SyntaxError) as error:
        raise NoSource(str(error)) from None
    first = tree.body[0].body[0]  # type: ignore[attr-defined]
    return first if isinstance(first, _FUNCTIONS) else tree.body[0]


# ------------------------------------------------------------------------------------------------------ jumps


def _jumps(body: Sequence[ast.AST]) -> Iterator[ast.Return | ast.Break | ast.Continue]:
    """The jumps that leave these statements; loops and functions inside keep their own."""
    for node in body:
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            yield node
        elif isinstance(node, _LOOPS):
            yield from (jump for jump in _jumps(node.body) if isinstance(jump, ast.Return))
            yield from _jumps(node.orelse)
        elif not isinstance(node, _SCOPES):
            for name in ("body", "handlers", "cases", "orelse", "finalbody"):
                yield from _jumps(getattr(node, name, []) or [])


# ------------------------------------------------------------------------------------------------- rebindings


def _rebindings(scope: ast.AST, block: ast.With) -> Iterator[ast.Name]:
    """The first assignment in the block to each name that has another value before it, and is read after it."""
    stores: dict[str, ast.Name] = {}
    for one in _own_nodes(block.body):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            stores.setdefault(one.id, one)
    outside = {
        name
        for node in _own_nodes(scope.body)  # type: ignore[attr-defined]
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    for name, store in stores.items():
        if name in outside or _Reads(name, scope, block).another_value():
            yield store


def _own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes in source order, without those of functions, classes and comprehensions inside."""
    for node in body:
        yield node
        if isinstance(node, _COMPREHENSIONS):  # names bound in it are its own, but for those of `:=`
            yield from (one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
        elif not isinstance(node, _SCOPES):
            yield from _own_nodes(list(ast.iter_child_nodes(node)))


def _arguments(function: ast.AST) -> list[str]:
    arguments = getattr(function, "args", None)
    return [] if arguments is None else [one.arg for one in ast.walk(arguments) if isinstance(one, ast.arg)]


@dataclass(frozen=True)
class _After:
    """Is the name read, before it is bound again, after the present statements, after a `break`, a `continue`?"""

    next: bool = False
    leave: bool = False
    again: bool = False

    def then(self, read: bool) -> _After:
        return _After(read, self.leave, self.again)


_Iteration = tuple[Sequence[ast.AST], _After]  # of a loop: its body, and what follows the end of it


class _Reads:
    """Where a name is read first. Every function says whether that can be before the name is bound anew."""

    def __init__(self, name: str, scope: ast.AST, block: ast.With):
        self._name = name
        self._scope = scope
        self._block = block
        self._blind = False  # sees no reads: then only what comes after counts

    def another_value(self) -> bool:
        """Whether the value that the block gives the name takes the place of one, where it is read afterwards."""
        body = self._scope.body  # type: ignore[attr-defined]
        read, iteration = self._after_block(body, _After())
        if read and self._bound_before():
            return True
        if iteration is None:
            return False
        self._blind = True  # a loop: the value of an earlier iteration, if it is read after that iteration
        return self._after_block(*iteration)[0]

    def _bound_before(self) -> bool:
        inside = set(map(id, ast.walk(self._block)))
        loops = [
            (node.lineno, node.end_lineno or 0)
            for node in ast.walk(self._scope)
            if isinstance(node, _LOOPS) and any(one is self._block for one in ast.walk(node))
        ]
        return self._name in _arguments(self._scope) or any(
            isinstance(node, ast.Name)
            and node.id == self._name
            and isinstance(node.ctx, ast.Store)
            and id(node) not in inside
            and (node.lineno < self._block.lineno or any(a <= node.lineno <= b for a, b in loops))
            for node in _own_nodes(self._scope.body)  # type: ignore[attr-defined]
        )

    # -- after the block

    def _after_block(self, body: Sequence[ast.AST], after: _After) -> tuple[bool, _Iteration | None]:
        """Is the name read after the block; and the body of the innermost loop around it, with what follows that."""
        index, node = next((i, one) for i, one in enumerate(body) if self._holds_block([one]))
        after = after.then(self._first(body[index + 1 :], after))
        if node is self._block:
            return after.next, None
        part, follows = next(one for one in self._parts(node, after) if self._holds_block(one[0]))
        read, iteration = self._after_block(part, follows)
        if iteration is None and isinstance(node, _LOOPS) and part is node.body:
            iteration = (part, follows)
        return read, iteration

    def _holds_block(self, body: Sequence[ast.AST]) -> bool:
        return any(one is self._block for node in body for one in ast.walk(node))

    # -- first uses

    def _first(self, body: Sequence[ast.AST], after: _After) -> bool:
        read = after.next
        for node in reversed(body):
            read = self._statement(node, after.then(read))
        return read

    def _statement(self, node: ast.AST, after: _After) -> bool:
        if isinstance(node, ast.Return | ast.Raise):
            return self._expression(node)
        if isinstance(node, ast.Break):
            return after.leave
        if isinstance(node, ast.Continue):
            return after.again
        heads = [getattr(node, name, None) for name in ("test", "iter", "subject")]
        heads += [item.context_expr for item in getattr(node, "items", []) if isinstance(item, ast.withitem)]
        if isinstance(
            node, ast.If | ast.With | ast.AsyncWith | ast.Try | ast.Match | ast.For | ast.AsyncFor | ast.While
        ):
            if any(head is not None and self._expression(head) for head in heads):
                return True
            return any(self._first(part, follows) for part, follows in self._parts(node, after, entry=True))
        if self._expression(node):
            return True
        return after.next and not self._binds(node)

    def _parts(self, node: ast.AST, after: _After, entry: bool = False) -> Iterator[tuple[Sequence[ast.AST], _After]]:
        """The bodies of a compound statement, with what follows each; `entry`: only where it can begin."""
        if isinstance(node, _LOOPS):
            done = self._first(node.orelse, after)
            target = isinstance(node, ast.For | ast.AsyncFor) and self._binds(node.target)
            again = done  # once more: the head reads nothing, or the caller knows
            for _ in range(2):
                again = again or (not target and self._first(node.body, _After(again, after.next, again)))
            if isinstance(node, ast.While) and self._expression(node.test):
                again = True
            yield node.orelse, after
            if not (entry and target):
                yield node.body, _After(again, after.next, again)
        elif isinstance(node, ast.Try):
            last = after.then(self._first(node.finalbody, after))
            good = last.then(self._first(node.orelse, last))
            caught = any(self._first(handler.body, last) for handler in node.handlers)
            yield node.body, good.then(good.next or caught)
            yield from ((handler.body, last) for handler in node.handlers)
            if not entry:
                yield node.orelse, last
                yield node.finalbody, after
        elif isinstance(node, ast.Match):
            yield from ((case.body, after) for case in node.cases)
            yield [], after
        elif isinstance(node, ast.With | ast.AsyncWith):
            bound = any(item.optional_vars is not None and self._binds(item.optional_vars) for item in node.items)
            if not (entry and bound):
                yield node.body, after
        elif isinstance(node, ast.If):
            yield node.body, after
            yield node.orelse, after

    def _expression(self, node: ast.AST) -> bool:
        """Whether the name is read here; a function that reads it counts, wherever it is called."""
        if self._blind:
            return False
        if isinstance(node, ast.Name):
            return node.id == self._name and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == self._name:
            return True
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, _COMPREHENSIONS) and any(self._binds(one.target) for one in node.generators):
            children = [node.generators[0].iter]
        elif isinstance(node, (*_FUNCTIONS, ast.Lambda)) and self._name in _arguments(node):
            children = []
        return any(self._expression(child) for child in children)

    def _binds(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Import | ast.ImportFrom):
            return any((alias.asname or alias.name.split(".")[0]) == self._name for alias in node.names)
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            return node.name == self._name
        return any(
            isinstance(one, ast.Name) and one.id == self._name and isinstance(one.ctx, ast.Store | ast.Del)
            for one in _own_nodes([node])
        )
