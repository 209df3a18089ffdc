"""A quiet SparkSession on this machine, for jobs, notebooks, benchmarks and tests."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .errors import ConfigError
from .java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Why each: conf/ledger.toml.
LOCAL_CONF = {
    "spark.master": "local[*]",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def local_session(name: str, conf: Mapping[str, Any] | None = None, log: str | None = None) -> SparkSession:
    """A SparkSession on `local[*]` whose JVM writes its log to a file; `log="-"` leaves it on stderr.

    `conf` adds to LOCAL_CONF and wins over it. Without `log` the file is in the system's temporary folder.
    """
    from pyspark.sql import SparkSession

    ensure_java()
    builder = SparkSession.builder.appName(name)
    for key, value in {**LOCAL_CONF, **(conf or {})}.items():
        builder = builder.config(key, _text(value))
    file = log or os.path.join(tempfile.gettempdir(), f"morphspark-{os.getpid()}-spark.log")
    try:
        # The JVM inherits stderr when it starts, so this also takes in what it says before it reads any log
        # settings (incubator modules, the default log profile, host names).
        with contextlib.nullcontext() if log == "-" else stderr_to(file):
            return builder.getOrCreate()
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise ConfigError(f"Spark did not start: {reason} Its log: {'above' if log == '-' else file}") from error


@contextlib.contextmanager
def stderr_to(file: str) -> Iterator[None]:
    """Let this process's stderr, which child processes inherit, go to the end of a file for a while."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(file, "ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
