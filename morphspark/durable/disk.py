"""The calls to the operating system that durability rests on, one method each, so that a test can fail each.

A handle is whatever `create` returns. Paths are absolute. Every error is an OSError.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from ..errors import StateError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in its place must not hang


class LocalDisk:
    def make_folder(self, path: str) -> list[str]:
        """With those above it that are not there; the folders that have a new name in them."""
        grown, missing = [], path
        while not os.path.isdir(missing) and missing != os.path.dirname(missing):
            missing = os.path.dirname(missing)
            grown.append(missing)
        os.makedirs(path, exist_ok=True)
        return grown

    def create(self, path: str) -> Any:
        """A new file, open for writing."""
        return os.open(path, _NEW, 0o666)

    def write(self, handle: Any, data: Any) -> int:
        """How many bytes were written: perhaps not all."""
        return os.write(handle, data)

    def sync(self, handle: Any) -> None:
        os.fsync(handle)

    def close(self, handle: Any) -> None:
        os.close(handle)

    def link(self, source: str, target: str) -> None:
        """A second name for a file; FileExistsError if it is taken."""
        os.link(source, target)

    def delete(self, path: str) -> None:
        os.unlink(path)

    def sync_folder(self, path: str) -> None:
        """Make the names in a folder as durable as the files."""
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def list(self, path: str) -> dict[str, int]:
        """Names and sizes of the files in a folder; nothing if it is not there."""
        if os.path.islink(path):
            raise _link(path)
        found = {}
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        found[entry.name] = entry.stat(follow_symlinks=False).st_size
                    except FileNotFoundError:
                        pass  # deleted in this moment, by a writer's retention
        except FileNotFoundError:
            pass
        return found

    def read(self, path: str, offset: int, length: int | None) -> bytes:
        """Bytes of a plain file, as many as there are; never through a symbolic link, of it or of its folder."""
        if os.path.islink(folder := os.path.dirname(path)):
            raise _link(folder)
        try:
            handle = os.open(path, _OLD)
        except OSError as error:
            raise (_link(path) if os.path.islink(path) else error) from None
        with open(handle, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise StateError(f"{path}: expected a plain file")
            if offset:
                file.seek(offset)
            return file.read() if length is None else _read_all(file, length)


def _read_all(file: Any, length: int) -> bytes:
    first = file.read(length)
    if len(first) == length:
        return first
    parts = [first]
    while parts[-1] and sum(map(len, parts)) < length:
        parts.append(file.read(length - sum(map(len, parts))))
    return b"".join(parts)


def _link(path: str) -> StateError:
    return StateError(
        f"{path} is a symbolic link; a state directory holds plain files only, as a link can lead anywhere. Put the "
        f"file itself there, or name the folder it leads to when you open the state"
    )
