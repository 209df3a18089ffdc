"""`@ms.udf("float64")`: functions of the user's inside of transactions.

    compiled (default)   by numba to native code, called without the GIL; integers inside wrap, a raise aborts
    vector=True          called with numpy arrays, once for a group of transactions; a group may be one
    python=True          anything, under the GIL

Called inside of a transaction a function becomes a step of its program; anywhere else it is the function that it was.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import callee, jit, trace, types
from .errors import TraceError
from .expr import Value
from .fingerprint import Fingerprint, fingerprint
from .program import FunctionSpec
from .types import Type

_EXAMPLE = '@ms.udf("float64")'


class Function:
    """What the decorator makes of a function."""

    def __init__(self, function: Callable[..., Any], results: tuple[Type, ...], kind: str, made: Fingerprint):
        self.function, self.results, self.kind = function, results, kind
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self._signature = inspect.signature(function)
        name = trace.check_name(function.__name__, "function")
        self.fingerprint = made
        self.spec = FunctionSpec(name, kind, results, self.fingerprint.hash, self)
        callee.known.add(self)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.results))
        return f"<morphspark function {self.__name__}{self._signature} -> {shown}, {self.kind}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tracer = trace.active_tracer()
        return self.function(*args, **kwargs) if tracer is None else self._traced(tracer, args, kwargs)

    def over(self, values: Value, more: Sequence[Any]) -> Any:
        """Called with the values of a window, and perhaps with more."""
        return self._traced(values.tracer, (values, *more), {})

    def _traced(self, tracer: trace.Tracer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given = self._arguments(args, kwargs)
        what = f"an argument of {self.__name__}"
        operands = [tracer.operand(one, what) for one in given]
        tracer.check(callee.check_call, self.spec, [kind for _, kind in operands])
        tracer.uses(self.spec)
        call = tracer.step("call", tuple(one for one, _ in operands), self.results[0], text=self.__name__)
        if len(self.results) == 1:
            return call
        return tuple(self._part(tracer, call, i, kind) for i, kind in enumerate(self.results))

    def _part(self, tracer: trace.Tracer, call: Value, index: int, kind: Type) -> Value:
        return tracer.step("result", (call.operand,), kind, text=str(index))

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise trace.trace_error(f"{self.__name__}{self._signature}: {error}") from None
        bound.apply_defaults()
        if bound.kwargs:
            raise trace.trace_error(f"{self.__name__}: arguments that have to be named can't be given in a transaction")
        if self.kind == "vector" and not bound.args:
            raise trace.trace_error(f"{self.__name__} takes no array, so nobody knows how many results are wanted")
        return bound.args

    # To another process (Spark Connect) by name where it can be imported, else as a whole: which needs cloudpickle.
    def __reduce__(self) -> Any:
        home = sys.modules.get(self.__module__)
        if self.__module__ != "__main__" and getattr(home, self.__qualname__, None) is self:
            return self.__qualname__
        return Function, (self.function, self.results, self.kind, self.fingerprint)


def udf(
    results: Any = None, /, *, vector: bool = False, python: bool = False
) -> Callable[[Callable[..., Any]], Function]:
    """Decorate a function for use in transactions. `results` is the type it returns, or a list of them for several.

    vector    it takes numpy arrays and returns one (or several) of the same length, row by row
    python    it takes and returns Python values, None for null; slow, as it needs the GIL for every event

    `speeds[k].over("5 min").speed.apply(f, …)` calls it with the values of a window, the oldest first: a numpy array; a
    python=True function with a list; a vector=True function with a list of arrays, one for each row of the others.
    """
    if callable(results) or results is None:
        raise TraceError(f"a function needs the type that it returns: write {_EXAMPLE}")
    if vector and python:
        raise TraceError("vector=True and python=True are two ways to call a function; choose one")
    kind = "vector" if vector else "python" if python else "compiled"
    kinds = _result_types(results, kind)

    def decorate(function: Callable[..., Any]) -> Function:
        if not inspect.isfunction(function) or inspect.isgeneratorfunction(function):
            raise TraceError(f"{_EXAMPLE} decorates a plain function, not a {type(function).__name__}")
        if inspect.iscoroutinefunction(function):
            raise TraceError(f"{function.__name__}: a plain function, without async")
        if kind == "compiled" and not jit.available():
            raise TraceError(f"{function.__name__}: {jit.MISSING}")
        return Function(function, kinds, kind, fingerprint(function))

    return decorate


def _result_types(results: Any, kind: str) -> tuple[Type, ...]:
    several = results if isinstance(results, list | tuple) else [results]
    if not several:
        raise TraceError("@ms.udf([]): a function returns at least one value")
    parsed = tuple(types.parse(one, "@ms.udf") for one in several)
    for one in parsed:
        if one.name not in callee.PYTHON_TYPES:
            raise TraceError(f"@ms.udf: a function can't return {one}")
        if kind != "python" and one not in jit.COMPILED_TYPES:
            raise TraceError(f"@ms.udf: only a function with python=True can return {one}")
    return parsed
