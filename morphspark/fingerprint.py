"""A name for what a function does: its source, and the values that it takes from outside.

Bound to a state directory (another function there is another program) and the key of compiled code on the disk. What
nobody can look into (an object with a state of its own) counts by its type only; such a fingerprint is not *exact*.
"""

from __future__ import annotations

import hashlib
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)


@dataclass(frozen=True)
class Fingerprint:
    hash: str
    exact: bool


def fingerprint(function: Callable[..., Any]) -> Fingerprint:
    look = _Look()
    digest = hashlib.sha256()
    for part in look.into(function):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return Fingerprint(digest.hexdigest(), look.exact)


class _Look:
    def __init__(self) -> None:
        self.exact = True
        self._seen: list[Any] = []

    def into(self, function: Any) -> Iterator[str]:
        if any(function is one for one in self._seen):
            return
        self._seen.append(function)
        code = function.__code__
        yield from self._source(code)
        for name, value in sorted(_outside(function).items()):
            yield name
            yield from self._value(value)
        yield from self._value(function.__defaults__ or ())

    def _source(self, code: types.CodeType) -> Iterator[str]:
        try:
            yield textwrap.dedent(inspect.getsource(code))
        except (OSError, TypeError):  # typed at a prompt, or made by exec: its instructions say the same
            yield code.co_code.hex()
            yield repr(code.co_names)
            for one in code.co_consts:
                yield from self._source(one) if isinstance(one, types.CodeType) else [repr(one)]

    def _value(self, value: Any) -> Iterator[str]:
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, tuple | list):
            yield f"{type(value).__name__} {len(value)}"
            for one in value:
                yield from self._value(one)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            yield f"array {value.dtype.str} {value.shape}"
            yield hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        elif isinstance(value, types.ModuleType):
            yield f"module {value.__name__}"
        elif isinstance(value, types.BuiltinFunctionType | np.ufunc):
            yield f"builtin {getattr(value, '__module__', '')}.{value.__name__}"
        elif (inner := getattr(value, "py_func", value)) and isinstance(inner, types.FunctionType):
            yield f"function {inner.__qualname__}"
            yield from self.into(inner)
        else:
            self.exact = False
            yield f"object {type(value).__module__}.{type(value).__qualname__}"


def _outside(function: Any) -> dict[str, Any]:
    """The names that a function takes from its closure and its module, with their values."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = {name: cell.cell_contents for name, cell in cells if _filled(cell)}
    for name in _names(function.__code__):
        if name in function.__globals__:
            found.setdefault(name, function.__globals__[name])
    return found


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a name that gets its value later: a function that calls itself, say
        return False


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            found |= _names(one)
    return found
