"""Settings of an engine: how it runs and what it keeps, never what it computes."""

from __future__ import annotations

import dataclasses
import operator
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import strategy as strategies
from .errors import ConfigError

LOGS = ("auto", "delta", "command", "none")


@dataclass(frozen=True)
class Config:
    """All fields are attributes; see conf/ledger.toml for the same settings in a file."""

    # A mapping: a strategy for each transaction (see strategy.py). A mapping has no hash; equal configs are found by
    # the rest.
    strategy: str | Mapping[str, str] = field(default="auto", hash=False)
    threads: int | None = None  # None: one per core
    punctuation: int | str = "auto"  # events per batch inside an epoch, where the strategy plans
    observe: bool = False  # time every unit of a batch, for the breakdown in the metrics; slows small units down
    clock: Callable[[], int] | None = None  # microseconds since 1970 UTC; None: the wall clock. Recorded per epoch
    log: str = "auto"  # what an epoch writes: "delta" (changed rows), "command" (its events), "none" (in memory)
    snapshot_every: int | str = "auto"  # epochs between snapshots; "auto": when the log has grown as long as one
    fsync: bool = True  # False: what a power failure takes away is the operating system's choice
    retain_epochs: int = 2  # epochs back from the last whose state can be read and whose output is kept
    max_epoch_rows: int = 100_000_000
    max_string_bytes: int = 16 * 1024 * 1024
    max_state_bytes: int = 1 << 40

    def __post_init__(self) -> None:
        strategies.check(self.strategy)
        if not isinstance(self.strategy, str):
            object.__setattr__(self, "strategy", dict(self.strategy))  # checked: whoever gave it may go on to change it
        if self.threads is not None:
            self._count("threads", 1024)
        if self.punctuation != "auto":
            self._count("punctuation", or_auto=True)
        if self.log not in LOGS:
            raise ConfigError(f"log={self.log!r}: expected one of {', '.join(LOGS)}")
        if self.snapshot_every != "auto":
            self._count("snapshot_every", or_auto=True)
        for name in ("observe", "fsync"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name}={getattr(self, name)!r}: expected true or false")
        for name in ("retain_epochs", "max_epoch_rows", "max_string_bytes", "max_state_bytes"):
            self._count(name)
        if self.clock is not None and not callable(self.clock):
            raise ConfigError("clock: expected a function that returns microseconds since 1970 UTC")

    def _count(self, name: str, largest: int = (1 << 63) - 1, or_auto: bool = False) -> None:
        """A field that counts something: an int afterwards, whatever kind of whole number it was (NumPy's, say)."""
        value = getattr(self, name)
        try:
            number = operator.index(value)
        except TypeError:
            number = 0
        if isinstance(value, bool) or not 1 <= number <= largest:
            bounds = f"from 1 to {largest}" if number > largest or largest <= 1024 else "of at least 1"
            raise ConfigError(f"{name}={value!r}: expected a whole number {bounds}{', or auto' if or_auto else ''}")
        object.__setattr__(self, name, number)

    @property
    def thread_count(self) -> int:
        return self.threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (
            self.threads or os.cpu_count() or 1
        )  # fmt: skip

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], where: str) -> Config:
        """Settings from a file or from Spark's conf, where every value may be text."""
        fields = {field.name: field for field in dataclasses.fields(cls) if field.name != "clock"}
        given: dict[str, Any] = {}
        nested: dict[str, Any] = {}  # strategy.<transaction>, as Spark's conf has no tables
        for name, value in settings.items():
            if name.startswith("strategy."):
                nested[name.removeprefix("strategy.")] = value
            elif name not in fields:
                raise ConfigError(f"{where}: unknown setting {name!r}; expected one of {', '.join(fields)}")
            else:
                given[name] = _from_text(value)
        if nested and "strategy" in given:
            raise ConfigError(f"{where}: strategy and strategy.{next(iter(nested))} are both set; leave one out")
        return cls(**given, **({"strategy": nested} if nested else {}))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Config:
        """The [engine] section of a TOML file."""
        return cls.from_mapping(read_toml(path).get("engine", {}), str(path))


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _from_text(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    if value in ("true", "false"):
        return value == "true"
    return value
