"""What Spark looks for: it imports modules called `pyspark_*` and registers their `DefaultSource`."""

from morphspark.datasource import StateSource as DefaultSource

__all__ = ["DefaultSource"]
