"""Disks for tests: one that fails at a chosen call, and one in memory that forgets what was not synced.

    disk = SimulatedDisk()
    engine = app.open(LocalStore("/state", disk=FaultyDisk(disk, "error", nth=57)))
    …
    app.open(LocalStore("/state", disk=disk.after_crash(random.Random(1))))

A simulated crash keeps what the protocol may rely on: bytes of a file up to its last `sync`, names in a folder up to
its last `sync_folder`. Of everything later it keeps what chance decides, names and bytes each on their own: more than
any real file system gets wrong.
"""

from __future__ import annotations

import copy
import errno
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# What a fault does, and the calls that it can happen to.
CALLS = ("make_folder", "create", "write", "sync", "close", "link", "delete", "sync_folder", "list", "read")
FAULTS = {
    "error": CALLS,  # an error instead of the call
    "after": ("create", "write", "sync", "close", "link", "delete", "sync_folder"),  # an error after the call
    "full": ("create", "write", "link"),  # no space left
    "short": ("write",),  # half of it; then no space left
    "flip": ("read",),  # one wrong bit
}


class FaultyDisk:
    """Passes calls on to another disk; the nth that the fault can happen to goes wrong, once."""

    def __init__(self, disk: Any, fault: str | None = None, nth: int = 0):
        self._disk = disk
        self._lock = threading.Lock()
        self._full = False
        self.calls: list[str] = []  # all that were made
        self.arm(fault, nth)

    def arm(self, fault: str | None, nth: int) -> None:
        """From now on, let the nth call go wrong."""
        with self._lock:
            self._fault, self._nth = fault, nth
            self.happened = ""  # the call that went wrong

    def __getattr__(self, call: str) -> Any:
        if call not in CALLS:
            raise AttributeError(call)
        return lambda *given: self._call(call, *given)

    def _call(self, call: str, *given: Any) -> Any:
        fault = self._fault_of(call)
        if fault == "":
            return getattr(self._disk, call)(*given)
        if fault == "flip":
            return _flipped(self._disk.read(*given))
        if fault == "short":
            return self._disk.write(given[0], given[1][: len(given[1]) // 2])
        if fault == "after":
            getattr(self._disk, call)(*given)
        code = errno.ENOSPC if fault == "full" else errno.EIO
        raise OSError(code, os.strerror(code), next((one for one in given if isinstance(one, str)), None))

    def _fault_of(self, call: str) -> str:
        """What goes wrong with this call; empty: nothing."""
        with self._lock:
            self.calls.append(call)
            if self._full and call == "write":  # what a short write left over
                self._full = False
                return "full"
            if self._fault is None or call not in FAULTS[self._fault]:
                return ""
            self._nth -= 1
            if self._nth != 0:
                return ""
            self.happened = call
            self._full = self._fault == "short"
            return self._fault


def _flipped(data: bytes) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[len(changed) // 2] ^= 0x10
    return bytes(changed)


@dataclass
class _File:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass
class _Folder:
    names: dict[str, _File] = field(default_factory=dict)
    synced: dict[str, _File] = field(default_factory=dict)


class SimulatedDisk:
    """In memory, and as forgetful as a disk may be. Calls as those of LocalDisk."""

    def __init__(self) -> None:
        self._folders: dict[str, _Folder] = {}
        self._lock = threading.RLock()

    def make_folder(self, path: str) -> list[str]:
        with self._lock:
            missing = [one for one in _with_parents(path) if one not in self._folders]
            for one in missing:
                self._folders[one] = _Folder()
            return [os.path.dirname(one) for one in missing]

    def create(self, path: str) -> _File:
        with self._lock:
            folder, name = self._place(path)
            if name in folder.names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            folder.names[name] = _File()
            return folder.names[name]

    def write(self, handle: _File, data: Any) -> int:
        handle.data.extend(data)
        return len(data)

    def sync(self, handle: _File) -> None:
        handle.synced = bytes(handle.data)

    def close(self, handle: _File) -> None:
        pass

    def link(self, source: str, target: str) -> None:
        with self._lock:
            (old, name), (new, other) = self._place(source), self._place(target)
            if other in new.names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            new.names[other] = old.names[name]

    def delete(self, path: str) -> None:
        with self._lock:
            folder, name = self._place(path)
            if folder.names.pop(name, None) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def sync_folder(self, path: str) -> None:
        with self._lock:
            folder = self._folders[path]
            folder.synced = dict(folder.names)

    def list(self, path: str) -> dict[str, int]:
        with self._lock:
            folder = self._folders.get(path, _Folder())
            return {name: len(file.data) for name, file in folder.names.items()}

    def read(self, path: str, offset: int, length: int | None) -> bytes:
        with self._lock:
            folder, name = self._place(path)
            if name not in folder.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            data = bytes(folder.names[name].data)
            return data[offset:] if length is None else data[offset : offset + length]

    def copy(self) -> SimulatedDisk:
        """As it is, with what is not synced."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> SimulatedDisk:
        with self._lock:
            other = SimulatedDisk()
            other._folders = copy.deepcopy(self._folders, memo)
            return other

    def after_crash(self, chance: random.Random) -> SimulatedDisk:
        """What is there when the machine comes back."""
        with self._lock:
            after = SimulatedDisk()
            kept: dict[int, _File] = {}
            for path, folder in self._folders.items():
                names = dict(_survivors(folder, chance))
                for file in names.values():
                    kept.setdefault(id(file), _remains(file, chance))
                whole = {name: kept[id(file)] for name, file in names.items()}
                after._folders[path] = _Folder(whole, dict(whole))
            return after

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder = self._folders.get(os.path.dirname(path))
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return folder, os.path.basename(path)


def _survivors(folder: _Folder, chance: random.Random) -> Iterator[tuple[str, _File]]:
    for name in sorted({*folder.names, *folder.synced}):
        now, then = folder.names.get(name), folder.synced.get(name)
        file = now if now is then else chance.choice([now, then])
        if file is not None:
            yield name, file


def _remains(file: _File, chance: random.Random) -> _File:
    rest = len(file.data) - len(file.synced)
    data = bytes(file.data[: len(file.synced) + chance.randint(0, rest)])
    return _File(bytearray(data), data)


def _with_parents(path: str) -> Iterator[str]:
    while True:
        yield path
        parent = os.path.dirname(path)
        if parent == path:
            return
        path = parent
