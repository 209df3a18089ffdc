"""Taking turns, medians, bars, and the report."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import morphspark


def take_turns(
    contestants: Mapping[str, Callable[[int], Any]], repeats: int, warm_up: int = 2
) -> dict[str, list[float]]:
    """Seconds of each call of each contestant. They take turns, so that what disturbs one disturbs all."""
    for turn in range(warm_up):
        for contestant in contestants.values():
            contestant(turn)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats):
        progress(turn, repeats)
        for name, contestant in contestants.items():
            started = time.perf_counter()
            contestant(warm_up + turn)
            seconds[name].append(time.perf_counter() - started)
    progress(repeats, repeats)
    return seconds


def progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == of else ""
        print(f"\r  {done}/{of}", end=end, file=sys.stderr, flush=True)


def spread(values: list[float]) -> float:
    """Half of the range that holds the middle half, as a share of the median."""
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle


@dataclass
class Report:
    bench: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    bars: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def measured(self, name: str, events: int, seconds: list[float], **more: Any) -> float:
        """Add a row for a contestant; its median rate in events a second."""
        rate = events / statistics.median(seconds)
        row = {"name": name, "events": events, "events_per_s": round(rate), "repeats": len(seconds)}
        row["median_ms"] = round(statistics.median(seconds) * 1e3, 3)
        row["spread"] = round(spread(seconds), 3)
        self.rows.append({**row, **more})
        return rate

    def bar(self, name: str, value: float, bar: float | None, at_most: bool = False) -> None:
        """Add a bar; None: reported only."""
        ok = None if bar is None else (value <= bar if at_most else value >= bar)
        self.bars.append({"name": name, "value": round(value, 3), "bar": bar, "ok": ok})

    def show(self) -> None:
        for row in self.rows:
            name, rate = row["name"], row["events_per_s"]
            print(f"{name:<34} {rate:>12,} events/s   {row['median_ms']:>10.2f} ms  ±{100 * row['spread']:.0f} %")
        for note in self.notes:
            print(note)
        for bar in self.bars:
            verdict = {True: "met", False: "MISSED", None: "reported"}[bar["ok"]]
            wanted = "" if bar["bar"] is None else f" (bar {bar['bar']})"
            print(f"{bar['name']:<34} {bar['value']:>12}{wanted}  {verdict}")
        print(json.dumps({"bench": self.bench, "machine": machine(), "rows": self.rows, "bars": self.bars}))


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "morphspark": morphspark.__version__,
    }


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
