"""What the suites ask the core's observers for: the keys of an epoch's metrics, in one place.

Counts and sizes are those of one epoch; where an epoch has several batches, sums for times and counts, the largest for
bytes. A key that is not in the metrics is "not measured yet".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOT_MEASURED = "not measured yet"

DECISION = "strategy"  # the one that ran, also where `auto` chose it

# Where the execute stage's time went, in ms of all threads together.
BREAKDOWN = {
    "useful": "useful_ms",
    "sync": "sync_ms",
    "lock": "lock_ms",
    "construct": "construct_ms",
    "explore": "explore_ms",
    "abort": "abort_ms",
}

PLAN_OPERATIONS = "plan_operations"  # of the graph
PLAN_MS = "plan_ms"  # from resolved slots to a complete graph, wall time

GRAPH_BYTES = "graph_bytes"
VERSION_BYTES = "version_bytes"  # of all versions that a batch made
PEAK_BYTES = "peak_bytes"  # graph and versions together


def decision(record: Mapping[str, Any]) -> str:
    return str(record.get(DECISION, "unknown"))


def reason(record: Mapping[str, Any]) -> dict[str, Any]:
    """Why the last batch of the epoch ran as it did, and how long it was expected to take and took."""
    batches = record.get("batches") or [{}]
    return {key: batches[-1].get(key) for key in ("why", "predicted_ms", "measured_ms")}


def ratio(record: Mapping[str, Any], above: str, below: str) -> float | None:
    """One metric per another; None where either is not measured."""
    top, bottom = record.get(above), record.get(below)
    return top / bottom if top is not None and bottom else None


def breakdown(record: Mapping[str, Any]) -> dict[str, float | None]:
    return {part: record.get(key) for part, key in BREAKDOWN.items()}


def figure(value: float | None, digits: int = 1) -> str:
    """For a table."""
    return "–" if value is None else f"{value:,.{digits}f}"
