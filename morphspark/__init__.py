"""morphspark: ACID multi-key transactions over shared state for Spark Structured Streaming."""

from .app import App
from .config import Config
from .durable.directory import StateDirectory
from .engine import Engine
from .errors import (
    ClosedError,
    ConfigError,
    EpochError,
    FencedError,
    LateError,
    LimitError,
    MorphsparkError,
    SchemaError,
    StateError,
    TraceError,
)
from .program import Program
from .udf import udf
from .window import window
from .words import absolute as abs
from .words import all_of as all
from .words import any_of as any
from .words import coalesce, count, each, key, mean, now, random, require, when, where
from .words import largest as max
from .words import smallest as min
from .words import total as sum

__version__ = "0.1.0"

__all__ = [
    "App", "ClosedError", "Config", "ConfigError", "Engine", "EpochError", "FencedError", "LateError", "LimitError",
    "MorphsparkError", "Program", "SchemaError", "Sink", "StateDirectory", "StateError", "TraceError",
    "abs", "all", "any", "coalesce", "count", "each", "key", "max", "mean", "min", "now", "random", "require",
    "sum", "udf", "when", "where", "window",
]  # fmt: skip


def __getattr__(name: str):
    # pyspark takes a second to import; an engine in a notebook does without it.
    if name == "Sink":
        from .sink import Sink

        return Sink
    raise AttributeError(f"module 'morphspark' has no attribute {name!r}")
