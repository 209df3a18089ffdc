"""The files of a state directory: data files that are written once, and records that whoever comes first creates.

A store is trusted for two things only:

    write           what `finish` and `sync` returned for survives whatever happens to this process or machine
    put_if_absent   of two writers that create one name, exactly one is told that it did, and readers see its bytes
                    whole or not at all

`LocalStore` has them from fsync and link. `ObjectStore` has them from an object store whose put can be conditional
(S3, Azure, Google; through `obstore`). A file system with neither is refused: without it two writers could both
believe that they committed.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.fs

from ..errors import ConfigError, StateError
from .disk import LocalDisk
from .failpoints import reach

UNFINISHED = ".unfinished"  # how names of files end that have no name of their own yet
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_CONDITIONAL = ("s3", "s3a", "gs", "az", "abfs", "abfss")
_NO_CONDITION = (
    "the store does not put an object only if it is absent, so two writers could both commit there; keep the state in "
    "another store, or switch its conditional puts on"
)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class UncertainError(StateError):
    """It can't be known whether a record exists."""


class Writer(ABC):
    """A new file. Its bytes are durable after `finish`, its name after the store's `sync` of the folder."""

    @abstractmethod
    def write(self, data: Any) -> None: ...

    @abstractmethod
    def finish(self) -> None: ...

    @abstractmethod
    def discard(self) -> None:
        """Give the file up; never raises."""


class Store(ABC):
    """Names are `folder/file`, with one slash."""

    location: str  # for messages

    @abstractmethod
    def create(self, name: str) -> Writer: ...

    @abstractmethod
    def sync(self, folder: str) -> None: ...

    @abstractmethod
    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create a file with all its bytes, durably. False: the name is taken. UncertainError: nobody knows."""

    @abstractmethod
    def read(self, name: str, offset: int = 0, length: int | None = None) -> Any:
        """Bytes of a file, perhaps less than asked for; FileNotFoundError."""

    @abstractmethod
    def files(self, folder: str) -> dict[str, int]:
        """Names (inside the folder) and sizes."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Does nothing if it is not there."""

    @abstractmethod
    def make_folders(self, names: Iterable[str]) -> None: ...

    def write(self, name: str, parts: Iterable[Any]) -> None:
        """A whole file at once."""
        writer = self.create(name)
        try:
            for part in parts:
                writer.write(part)
            writer.finish()
        except BaseException:
            writer.discard()
            raise

    def path(self, name: str) -> str:
        """Where Spark finds a file."""
        return f"{self.location}/{name}"


def open_store(path: Any, fsync: bool = True) -> Store:
    """The store that a path or URL names; a Store is taken as it is."""
    if isinstance(path, Store):
        return path
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise ConfigError(f"path={path!r}: expected a folder for the state, such as 'state/ledger'")
    text = re.sub(r"^file:(//)?(?=/)", "", text)
    if (scheme := _URL.match(text)) is None:
        return LocalStore(text, fsync)
    if scheme[1].lower() not in _CONDITIONAL:
        raise ConfigError(
            f"path={path!r}: {scheme[1]} can neither link files nor put an object only if it is absent, so two writers "
            f"could both commit there; use a local or mounted folder, or one of {', '.join(_CONDITIONAL)}"
        )
    return _object_store(text)


# -------------------------------------------------------------------------------------------------------- a local disk


class LocalStore(Store):
    """Files are opened here and not through pyarrow.fs: that can neither fsync nor refuse a symbolic link."""

    def __init__(self, path: str, fsync: bool = True, disk: Any = None):
        self.location = os.path.abspath(path)
        self._fsync = fsync
        self._disk = disk or LocalDisk()

    def make_folders(self, names: Iterable[str]) -> None:
        grown = {self.location, os.path.dirname(self.location)}  # also if a crash came before their sync
        for name in names:
            grown.update(self._disk.make_folder(self.path(name)))
        for folder in sorted(grown) if self._fsync else ():
            self._disk.sync_folder(folder)

    def create(self, name: str) -> Writer:
        return _LocalWriter(self._disk, self.path(name), self._fsync, "data")

    def sync(self, folder: str) -> None:
        if self._fsync:
            self._disk.sync_folder(self.path(folder))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        folder, target = os.path.dirname(self.path(name)), self.path(name)
        unfinished = f"{folder}/{uuid.uuid4().hex}{UNFINISHED}"
        writer = _LocalWriter(self._disk, unfinished, self._fsync, "record")
        try:
            writer.write(data)
            writer.finish()
            linked = self._link(unfinished, target, data)
        except BaseException:
            writer.discard()
            raise
        if linked:
            try:
                reach("record.linked")
                if self._fsync:
                    self._disk.sync_folder(folder)
                reach("record.listed")
            except Exception as error:
                raise UncertainError(f"{target} was created, but perhaps not kept by the disk: {error}") from error
        writer.discard()  # its first name
        return linked

    def _link(self, source: str, target: str, data: bytes) -> bool:
        """False: the name is taken by other bytes. An error is looked into: some file systems link and then fail."""
        try:
            self._disk.link(source, target)
            return True
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise ConfigError(
                    f"{self.location}: the file system can't link files ({error.strerror}), so two writers could both "
                    f"commit there; keep the state on another disk"
                ) from error
            try:
                return self._disk.read(target, 0, None) == data
            except FileNotFoundError:
                raise error from None  # surely not there
            except OSError:
                raise UncertainError(f"{target}: it can't be told whether it exists: {error}") from error

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._disk.read(self.path(name), offset, length)

    def files(self, folder: str) -> dict[str, int]:
        return self._disk.list(self.path(folder))

    def delete(self, name: str) -> None:
        try:
            self._disk.delete(self.path(name))
        except FileNotFoundError:
            pass


class _LocalWriter(Writer):
    def __init__(self, disk: Any, path: str, fsync: bool, kind: str):
        self._disk, self._path, self._fsync, self._kind = disk, path, fsync, kind
        self._handle = disk.create(path)
        try:
            reach(f"{kind}.created")
        except BaseException:
            self.discard()
            raise

    def write(self, data: Any) -> None:
        rest = memoryview(data).cast("B")
        while len(rest):
            written = self._disk.write(self._handle, rest)
            if not written:
                raise OSError(errno.EIO, "nothing was written", self._path)
            rest = rest[written:]

    def finish(self) -> None:
        reach(f"{self._kind}.written")
        if self._fsync:
            self._disk.sync(self._handle)
        reach(f"{self._kind}.synced")
        handle, self._handle = self._handle, None
        self._disk.close(handle)

    def discard(self) -> None:
        handle, self._handle = self._handle, None
        for step in (lambda: handle is None or self._disk.close(handle), lambda: self._disk.delete(self._path)):
            try:
                step()
            except OSError:
                pass  # what stays behind is named by no record


# ----------------------------------------------------------------------------------------------------- an object store


class ObjectStore(Store):
    """Data through pyarrow.fs, records through a conditional put of `obstore`; both look at the same objects.

    An object is durable when its put returns. A put whose answer got lost is uncertain until its bytes are seen.
    """

    def __init__(self, location: str, filesystem: pyarrow.fs.FileSystem, objects: Any):
        self.location = location.rstrip("/")
        self._filesystem = filesystem  # its root is the state directory
        self._objects = objects

    def make_folders(self, names: Iterable[str]) -> None:
        for name in names:
            self._filesystem.create_dir(name)
            self._check_conditional(f"{name}/{uuid.uuid4().hex}{UNFINISHED}")

    def _check_conditional(self, name: str) -> None:
        """Some servers take the condition of a put and do not know it."""
        first, second = self.put_if_absent(name, b"first"), self.put_if_absent(name, b"second")
        self.delete(name)
        if not first or second:
            raise ConfigError(f"{self.location}: {_NO_CONDITION}")

    def create(self, name: str) -> Writer:
        return _ObjectWriter(self._filesystem, name)

    def sync(self, folder: str) -> None:
        pass

    def put_if_absent(self, name: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self._objects, name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return self.read(name) == data  # our own, if the put was repeated on the way
        except NotImplementedError as error:
            raise ConfigError(f"{self.location}: {_NO_CONDITION}") from error
        except Exception as error:
            raise UncertainError(f"{self.location}/{name}: it can't be told whether it exists: {error}") from error
        return True

    def read(self, name: str, offset: int = 0, length: int | None = None) -> Any:
        with self._filesystem.open_input_file(name) as file:
            if length is None:
                length = file.size() - offset
            return file.read_at(length, offset) if length > 0 else b""

    def files(self, folder: str) -> dict[str, int]:
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        found = self._filesystem.get_file_info(selector)
        return {info.base_name: info.size for info in found if info.type == pyarrow.fs.FileType.File}

    def delete(self, name: str) -> None:
        try:
            self._filesystem.delete_file(name)
        except FileNotFoundError:
            pass


class _ObjectWriter(Writer):
    def __init__(self, filesystem: pyarrow.fs.FileSystem, name: str):
        self._filesystem, self._name = filesystem, name
        self._stream = filesystem.open_output_stream(name)
        reach("data.created")

    def write(self, data: Any) -> None:
        self._stream.write(data)

    def finish(self) -> None:
        reach("data.written")
        self._stream.close()
        reach("data.synced")

    def discard(self) -> None:
        for step in (self._stream.close, lambda: self._filesystem.delete_file(self._name)):
            try:
                step()
            except (OSError, pa.ArrowException):
                pass  # what stays behind is named by no record


def _object_store(url: str) -> ObjectStore:
    try:
        import obstore.store
    except ImportError:
        raise ConfigError(
            f"path={url!r}: state in an object store needs the package obstore, for puts that create only what is "
            f"absent: pip install 'morphspark[objects]'"
        ) from None
    filesystem, base = pyarrow.fs.FileSystem.from_uri(re.sub(r"^s3a:", "s3:", url))
    return ObjectStore(url, pyarrow.fs.SubTreeFileSystem(base, filesystem), obstore.store.from_url(url))
