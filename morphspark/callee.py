"""User functions as the engines call them: values of `values.py` in, values out, or a reason to abort.

Both cores call the same `Callee`, so that they can't disagree about conversions, checks and words. The native core
calls compiled code by its address, and comes here only for the reason of a failure; functions under the GIL come here
always, those with `vector=True` for all rows of a group at once.

A transaction aborts if its own call fails, whoever else is in its group: if the call for a group fails, each row is
called alone. So results don't depend on how transactions were grouped.
"""

from __future__ import annotations

import abc
import ctypes
import datetime
import decimal
import struct
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import jit, types, values
from .config import Config
from .errors import ConfigError
from .infer import Mismatch
from .program import FunctionSpec, Program
from .types import Type

REASON_CHARACTERS_MAX = 200
PYTHON_TYPES = ("bool", "int64", "float64", "string", "timestamp", "decimal")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_DTYPES = {"int64": "int64", "float64": "float64", "bool": "bool", "timestamp": "datetime64[us]"}
# Every `udf.Function` of this process: a program that was read from a file finds its own here.
known: weakref.WeakSet[Any] = weakref.WeakSet()


class UserFailure(Exception):
    """A function failed for a row: the transaction aborts with this reason."""

    def __init__(self, name: str, why: str):
        text = " ".join(f"udf: {name}: {why}".split())
        text = text.encode("utf-8", "replace").decode()
        clipped = text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 1] + "…"
        super().__init__(clipped)
        self.reason = clipped


# ------------------------------------------------------------------------------------------------- when built


def function_of(spec: FunctionSpec) -> Any:
    """The `udf.Function` itself."""
    live = spec.live or next((one for one in known if one.spec == spec), None)
    if live is None:
        raise Mismatch(
            f"function {spec.name!r} is not defined in this process as the program knows it; import the module that "
            f"defines it before the state is opened"
        )
    return live


def check_call(spec: FunctionSpec, given: Sequence[Type]) -> None:
    """Fail unless the function takes arguments of these types; compiles it, if it is to be."""
    for kind in given:
        if kind.name == "array":
            assert kind.element is not None
            kind = kind.element
        elif kind.element is not None:
            raise Mismatch(f"{spec.name} takes single values, not {kind}; call it inside of ms.each")
        if spec.kind != "python" and kind not in (*jit.COMPILED_TYPES, types.UNKNOWN, types.NULL):
            hint = "; multiply by 1.0 to make it a float64, or" if kind.name == "decimal" else ";"
            raise Mismatch(f"{spec.name} can't take {kind}{hint} use @ms.udf(…, python=True), which takes any type")
    if spec.kind == "compiled" and types.UNKNOWN not in given and types.NULL not in given:
        live = function_of(spec)
        jit.entry(live.function, live.fingerprint, tuple(given), spec.results)


def check_log(program: Program, config: Config, durable: bool) -> Config:
    """What a function under the GIL gave can't be promised to be given again, so changed rows are logged."""
    hosted = [one.name for one in program.functions if one.kind != "compiled"]
    if not durable or not hosted:
        return config
    if config.log == "command":
        raise ConfigError(
            f'log="command" runs transactions again after a restart, and nobody knows that {", ".join(hosted)} '
            f'(vector=True or python=True) would give the same again; use log="delta" or "auto"'
        )
    return replace(config, log="delta")


# -------------------------------------------------------------------------------------------------- when run


class Callee(abc.ABC):
    """A function with the types of its arguments. One per core, as it counts what it does."""

    address = 0  # of native code
    nullable = False
    vector = False

    def __init__(self, spec: FunctionSpec, given: tuple[Type, ...]):
        self.name, self.given, self.results = spec.name, given, spec.results
        self.live = function_of(spec)
        self.function = self.live.function
        self.interrupt: BaseException | None = None  # what ended the epoch while this ran
        self._threads: set[int] = set()  # that are inside of it
        self.reset()

    def reset(self) -> None:
        self.calls, self.rows, self.seconds = 0, 0, 0.0

    def count(self, rows: int, started: float) -> None:
        self.calls, self.rows = self.calls + 1, self.rows + rows
        self.seconds += time.perf_counter() - started

    @abc.abstractmethod
    def call(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """Results for one row, or UserFailure."""

    def run(self, *arguments: Any) -> Any:
        """The function itself; what it raises is its failure, but not what ends a program."""
        thread = threading.get_ident()
        self._threads.add(thread)
        try:
            return self.function(*arguments)
        except MemoryError:
            raise
        except Exception as error:
            raise self.failure(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
        finally:
            self._threads.discard(thread)

    def runs_here(self) -> bool:
        """This thread is inside of the function."""
        return threading.get_ident() in self._threads

    def failure(self, why: str) -> UserFailure:
        return UserFailure(self.name, why)

    def parts(self, returned: Any) -> Sequence[Any]:
        """What it returned, result by result."""
        if len(self.results) == 1:
            return [returned]
        if not isinstance(returned, tuple | list):
            raise self.failure(f"returned a {type(returned).__name__}, not {len(self.results)} values")
        if len(returned) != len(self.results):
            raise self.failure(f"returned {len(returned)} values, not {len(self.results)}")
        return returned


class Compiled(Callee):
    """Runs the same native code as the core does."""

    def __init__(self, spec: FunctionSpec, given: tuple[Type, ...]):
        super().__init__(spec, given)
        self._entry = jit.entry(self.function, self.live.fingerprint, given, self.results)
        self.address = self._entry.address
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(self.address)
        self._jitted: Any = None

    def call(self, given: Sequence[Any]) -> tuple[Any, ...]:
        codes = ["dq" if kind == types.FLOAT64 else "qq" for kind in self.given]
        arrays = self._arguments(given)
        pairs = [(one.ctypes.data, len(one)) if isinstance(one, np.ndarray) else (one, 0) for one in arrays]
        words = ctypes.create_string_buffer(
            struct.pack("<" + "".join(codes), *(word for pair in pairs for word in pair))
        )
        results = ctypes.create_string_buffer(16 * len(self.results))
        at, to = ctypes.addressof(words), ctypes.addressof(results)
        if self._call(at, at, to, to) != 0:
            raise self.failure(self._why(given))
        found = struct.unpack("<" + "".join("dq" if one == types.FLOAT64 else "qq" for one in self.results), results)
        return tuple(
            bool(value) if kind == types.BOOL else value for value, kind in zip(found[::2], self.results, strict=True)
        )

    def _arguments(self, given: Sequence[Any]) -> list[Any]:
        kinds = zip(given, self.given, strict=True)
        return [one if kind.element is None else _machine_array(one, kind.element) for one, kind in kinds]

    def _why(self, given: Sequence[Any]) -> str:
        """The words of the exception: numba keeps them for callers from Python only."""
        if self._jitted is None:
            self._jitted = jit.jitted(self.function)
        try:
            self._jitted(*self._arguments(given))
        except Exception as error:
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return "failed"


class Python(Callee):
    nullable = True

    def call(self, given: Sequence[Any]) -> tuple[Any, ...]:
        started = time.perf_counter()
        try:
            arguments = [_to_python(value, kind) for value, kind in zip(given, self.given, strict=True)]
        except OverflowError as error:  # a timestamp beyond the years that Python knows
            raise self.failure(f"OverflowError: {error}") from None
        try:
            parts = self.parts(self.run(*arguments))
            return tuple(self._result(one, kind) for one, kind in zip(parts, self.results, strict=True))
        finally:
            self.count(1, started)

    def _result(self, value: Any, kind: Type) -> Any:
        try:
            return _from_python(value, kind)
        except _Unfit as unfit:
            raise self.failure(str(unfit)) from None


class Vector(Callee):
    vector = True

    def call(self, given: Sequence[Any]) -> tuple[Any, ...]:
        started = time.perf_counter()
        columns = [
            [_array(value, kind.element)] if kind.element else _array([value], kind)
            for value, kind in zip(given, self.given, strict=True)
        ]
        try:
            return tuple(one.tolist()[0] for one in self._arrays(columns, 1))
        finally:
            self.count(1, started)

    def call_all(self, rows: int, words: Sequence[bytearray]) -> list[np.ndarray] | None:
        """Words of results for many rows; None if the call failed, and each row must be called alone."""
        started = time.perf_counter()
        given = zip(words, self.given, strict=True)
        columns = [_of_words(np.frombuffer(one, np.int64), kind) for one, kind in given]
        try:
            return [_to_words(one) for one in self._arrays(columns, rows)]
        except UserFailure:
            return None
        finally:
            self.count(rows, started)

    def _arrays(self, columns: list[np.ndarray], rows: int) -> list[np.ndarray]:
        """Results as int64, float64 or bool, checked."""
        returned = self.run(*columns)
        parts = zip(self.parts(returned), self.results, strict=True)
        return [self._checked(one, kind, rows) for one, kind in parts]

    def _checked(self, returned: Any, kind: Type, rows: int) -> np.ndarray:
        try:
            array = np.asarray(returned)
        except Exception as error:
            raise self.failure(f"returned a {type(returned).__name__}, which is no array: {error}") from None
        if array.shape != (rows,):
            raise self.failure(f"returned an array of shape {array.shape} for arguments of shape ({rows},)")
        accepted = {"float64": "fiu", "bool": "b", "timestamp": "M"}.get(kind.name, "iu")
        if array.dtype.kind not in accepted or array.dtype in (np.uint64, np.longdouble):
            raise self.failure(f"returned an array of {array.dtype}, not {_DTYPES[kind.name]}")
        if kind == types.TIMESTAMP:
            if np.isnat(array).any():
                raise self.failure("returned NaT")
            return array.astype("datetime64[us]").astype(np.int64)
        return array.astype(_DTYPES[kind.name], copy=False)


def callee(spec: FunctionSpec, given: tuple[Type, ...]) -> Callee:
    return {"compiled": Compiled, "vector": Vector, "python": Python}[spec.kind](spec, given)


def begin(callees: Iterable[Callee]) -> None:
    for one in callees:
        one.reset()


def spent(callees: Iterable[Callee]) -> dict[str, dict[str, float]]:
    """What functions did under the GIL since `begin`, by name."""
    found: dict[str, dict[str, float]] = {}
    for one in callees:
        if one.calls:
            sums = found.setdefault(one.name, {"calls": 0, "rows": 0, "ms": 0.0})
            sums["calls"] += one.calls
            sums["rows"] += one.rows
            sums["ms"] += one.seconds * 1e3
    return found


# ------------------------------------------------------------------------------------------------ Python values


class _Unfit(Exception):
    """A returned value that is not of the declared type; the text says what it is."""


def _to_python(value: Any, kind: Type) -> Any:
    if kind.element is not None:
        return [_to_python(one, kind.element) for one in value]
    if kind == types.TIMESTAMP:
        return _EPOCH + datetime.timedelta(microseconds=value)
    if kind.name == "decimal":
        return decimal.Decimal(value).scaleb(-kind.scale, context=decimal.Context(prec=types.DECIMAL_DIGITS_BETWEEN))
    return value


def _from_python(value: Any, kind: Type) -> Any:
    """A returned value as the engines hold it; None is null."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    number = isinstance(value, int) and not isinstance(value, bool)
    if kind == types.BOOL and isinstance(value, bool):
        return value
    if kind == types.INT64 and number:
        if not values.INT64_MIN <= value <= values.INT64_MAX:
            raise _Unfit(f"returned {value}, which is outside int64")
        return value
    if kind == types.FLOAT64 and (number or isinstance(value, float)):
        return _float(value)
    if kind == types.STRING and isinstance(value, str):
        return _text(value)
    if kind == types.TIMESTAMP and isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return (moment - _EPOCH) // _MICROSECOND
    if kind.name == "decimal" and (number or isinstance(value, decimal.Decimal)):
        return _decimal(value, kind)
    raise _Unfit(f"returned a {type(value).__name__}, not {kind}")


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _Unfit("returned an int that is too large for float64") from None


def _text(value: str) -> str:
    try:
        return value.encode().decode()
    except UnicodeEncodeError as error:
        raise _Unfit(f"returned text that is not valid Unicode: {error.reason}") from None


def _decimal(value: Any, kind: Type) -> int:
    """Rounded half up, as assignment does."""
    exact = decimal.Decimal(value)
    if not exact.is_finite():
        raise _Unfit(f"returned {exact}, not {kind}")
    if exact.adjusted() > types.DECIMAL_DIGITS_BETWEEN:
        raise _Unfit(f"returned {exact}, which does not fit {kind}")
    context = decimal.Context(prec=2 * types.DECIMAL_DIGITS_BETWEEN, rounding=decimal.ROUND_HALF_UP)
    unscaled = int(exact.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=context).scaleb(kind.scale, context))
    if abs(unscaled) >= 10**kind.precision:
        raise _Unfit(f"returned {exact}, which does not fit {kind}")
    return unscaled


# ------------------------------------------------------------------------------------------------ numpy values


def _machine_array(column: list[Any], kind: Type) -> np.ndarray:
    """As compiled functions see it: timestamps are integers."""
    return np.array(column, "int64" if kind == types.TIMESTAMP else _DTYPES[kind.name])


def _array(column: list[Any], kind: Type) -> np.ndarray:
    if kind == types.TIMESTAMP:
        return np.array(column, np.int64).view("datetime64[us]")
    return np.array(column, _DTYPES[kind.name])


def _of_words(words: np.ndarray, kind: Type) -> np.ndarray:
    if kind == types.BOOL:
        return words != 0
    return words.view(_DTYPES[kind.name])


def _to_words(array: np.ndarray) -> np.ndarray:
    words = array.astype(np.int64) if array.dtype == np.bool_ else array.view(np.int64)
    return np.ascontiguousarray(words)
