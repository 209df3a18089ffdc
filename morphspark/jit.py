"""Native code of user functions, by numba: what the core calls without the GIL.

The core knows one C ABI: `int32 entry(words, floats, result_words, result_floats)`. Both pointers of a pair are the
same address, of 16-byte values; which of them is read says the type. 0 means that the results are there, anything else
that the function raised. The entry is Python source, written here for each signature, around the user's function.

Compiled entries are kept in memory, and on the disk where a fingerprint tells all that they depend on.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from . import types
from .fingerprint import Fingerprint
from .infer import Mismatch
from .types import Type

COMPILED_TYPES = (types.BOOL, types.INT64, types.FLOAT64, types.TIMESTAMP)
MISSING = "functions are compiled by numba, which is not installed: pip install 'morphspark[jit]', or use python=True"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ERROR_LINES_MAX = 3
log = logging.getLogger(__name__)
_entries: dict[tuple[str, tuple[Type, ...], tuple[Type, ...]], Entry] = {}  # of this process; exact ones only


@dataclass(frozen=True)
class Entry:
    address: int
    keeps: Any  # the code lives as long as this does
    cached: bool = False  # it came from the disk


def available() -> bool:
    return importlib.util.find_spec("numba") is not None


def entry(
    function: Callable[..., Any], fingerprint: Fingerprint, given: tuple[Type, ...], results: tuple[Type, ...]
) -> Entry:
    """Native code for arguments of these types; Mismatch says what can't be compiled."""
    from numba.core.errors import NumbaError

    key = (fingerprint.hash, given, results)
    if key in _entries:
        return _entries[key]
    try:
        made = _compile(function, given, results, fingerprint)
    except NumbaError as error:
        shown = ", ".join(map(str, given))
        raise Mismatch(
            f"{function.__name__} can't be compiled for ({shown}): {_words_of(error)}; change it, or use python=True"
        ) from None
    if fingerprint.exact:
        _entries[key] = made
    return made


def jitted(function: Callable[..., Any]) -> Any:
    """Checked as Python checks: a division by zero and an index out of bounds raise."""
    import numba

    return numba.njit(boundscheck=True, error_model="python")(function)


def _compile(
    function: Callable[..., Any], given: tuple[Type, ...], results: tuple[Type, ...], fingerprint: Fingerprint
) -> Entry:
    import numba

    inner = jitted(function)
    source = _entry_source(given, results)
    path = _cache_file(source, fingerprint.hash) if fingerprint.exact else None
    if path is None or not _is_compiled(path):  # what is on the disk went through this
        _check_result(function.__name__, inner, [_numba_type(one) for one in given], results)
    if path is not None and _keep_source(path, source):
        try:
            return _entry(numba.cfunc(_signature(), cache=True)(_load(source, path, inner)))
        except Exception as error:  # whatever is wrong with the files, they only save time
            log.warning("compiled functions in %s can't be used: %s", path.parent, error)
    return _entry(numba.cfunc(_signature())(_load(source, None, inner)))


def _entry(wrapped: Any) -> Entry:
    return Entry(wrapped.address, wrapped, bool(wrapped.cache_hits))


def _signature() -> Any:
    import numba

    word, real = numba.types.CPointer(numba.types.int64), numba.types.CPointer(numba.types.float64)
    return numba.types.int32(word, real, word, real)


def _numba_type(kind: Type) -> Any:
    import numba

    if kind.element is not None:
        return numba.types.Array(_numba_type(kind.element), 1, "C")
    return {"bool": numba.types.boolean, "float64": numba.types.float64}.get(kind.name, numba.types.int64)


@functools.cache
def _array_reader(element: Type) -> Any:
    """Native code that makes an array of an address and how many values lie there."""
    import numba
    from numba.extending import intrinsic

    kind = _numba_type(element)

    @intrinsic
    def pointer(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

        return numba.types.CPointer(kind)(numba.types.int64), generate

    @numba.njit
    def read(address: Any, count: Any) -> Any:
        return numba.carray(pointer(address), (count,))

    return read


def _entry_source(given: Sequence[Type], results: Sequence[Type]) -> str:
    """A value is two words, so argument i has number 2 i."""
    read = {"bool": "words[{}] != 0", "float64": "floats[{}]"}
    write = {"bool": "result_words[{}] = 1 if {} else 0", "float64": "result_floats[{}] = {}"}
    arrays = "array_of_{kind}(words[{}], words[{next}])"
    arguments = ", ".join(
        (arrays if kind.element else read.get(kind.name, "words[{}]")).format(2 * i, kind=kind.element, next=2 * i + 1)
        for i, kind in enumerate(given)
    )
    values = ["value"] if len(results) == 1 else [f"value[{i}]" for i in range(len(results))]
    lines = [
        write.get(kind.name, "result_words[{}] = {}").format(2 * i, value)
        for i, (kind, value) in enumerate(zip(results, values, strict=True))
    ]
    return "\n".join(
        [
            "def entry(words, floats, result_words, result_floats):",
            "    try:",
            f"        value = inner({arguments})",
            "    except Exception:",
            "        return 1",
            *(f"    {line}" for line in lines),
            "    return 0",
            "",
        ]
    )


def _check_result(name: str, inner: Any, given: list[Any], results: tuple[Type, ...]) -> None:
    """Fail unless what the function returns is what it was declared to return; numba would convert without a word."""
    import numba

    inner.compile(tuple(given))
    found = inner.overloads[tuple(given)].signature.return_type
    several = isinstance(found, numba.types.BaseTuple)
    parts = list(found.types) if several else [found]
    wanted = ", ".join(map(str, results))
    if len(parts) != len(results) or several != (len(results) > 1):
        raise Mismatch(f"{name} returns {found}, but was declared to return {wanted}")
    for part, kind in zip(parts, results, strict=True):
        whole = isinstance(part, numba.types.Integer) and part != numba.types.uint64
        fits = {
            "bool": isinstance(part, numba.types.Boolean),
            "float64": whole or isinstance(part, numba.types.Float),
        }.get(kind.name, whole)
        if not fits:
            raise Mismatch(f"{name} returns {found}, but was declared to return {wanted}")


def _words_of(error: Exception) -> str:
    """What numba says, without its frames and colours."""
    lines = [line.strip() for line in _ANSI.sub("", str(error)).splitlines()]
    useful = [line for line in lines if line and not line.startswith(("Failed in", "During:", "^"))]
    place = next((line for line in useful if line.startswith("File ")), "")
    words = [line for line in useful if not line.startswith(("File ", "def ", "<source"))][:_ERROR_LINES_MAX]
    return " ".join([*words, f"({place.rstrip(':')})"] if place else words)


# ------------------------------------------------------------------------------------------------- on the disk


def cache_folder() -> Path:
    """Where compiled functions are kept: of this user, this numba, this Python; numba adds the processor."""
    import numba
    import numpy as np

    home = os.environ.get("MORPHSPARK_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "morphspark" / f"numba-{numba.__version__}-numpy-{np.__version__}"


def _cache_file(source: str, fingerprint: str) -> Path | None:
    """Where an entry's source is to be; None: there is no place for it."""
    name = hashlib.sha256(f"{fingerprint} {source}".encode()).hexdigest()[:32]
    try:
        return cache_folder() / f"morphspark_entry_{name}.py"
    except RuntimeError:  # nobody's home
        return None


def _keep_source(path: Path, source: str) -> bool:
    """The entry as a file, since numba keeps code beside the file that it was made from; False: it can't be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != source:  # not rewritten: numba looks at its time
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "w") as file:
                file.write(source)
            os.replace(temporary, path)
    except OSError:
        return False
    return True


def _is_compiled(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(path.parent.glob(f"__pycache__/{path.stem}.*.nbi"))
    return False


def _load(source: str, path: Path | None, inner: Any) -> Any:
    module = ModuleType("morphspark_entry" if path is None else path.stem)
    module.inner = inner  # type: ignore[attr-defined]
    for element in COMPILED_TYPES:
        if f"array_of_{element}(" in source:
            setattr(module, f"array_of_{element}", _array_reader(element))
    if path is not None:
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # numba looks it up by name when it loads what it has kept
    exec(compile(source, "<morphspark entry>" if path is None else str(path), "exec"), module.__dict__)
    return module.entry
