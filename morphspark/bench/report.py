"""Taking turns, medians, bars, and the report."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import morphspark
from morphspark.bench import chart
from morphspark.bench.progress_bar import ProgressBar


def take_turns(
    contestants: Mapping[str, Callable[[int], Any]], repeats: int, warm_up: int = 2
) -> dict[str, list[float]]:
    """Seconds of each call of each contestant. They take turns, so that what disturbs one disturbs all."""
    for turn in range(warm_up):
        for contestant in contestants.values():
            contestant(turn)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    with ProgressBar(repeats) as bar:
        for turn in range(repeats):
            bar.step(f"turn {turn + 1}")
            for name, contestant in contestants.items():
                started = time.perf_counter()
                contestant(warm_up + turn)
                seconds[name].append(time.perf_counter() - started)
    return seconds


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
    tables: list[str] = field(default_factory=list)  # lines; without any, the rows are listed
    notes: list[str] = field(default_factory=list)
    charts: list[chart.Chart] = field(default_factory=list)

    def measured(self, name: str, events: int, seconds: list[float], **more: Any) -> float:
        """Add a row for a contestant; its median rate in events a second."""
        rate = events / statistics.median(seconds)
        row = {"name": name, "events": events, "events_per_s": round(rate), "repeats": len(seconds)}
        row["median_ms"] = round(statistics.median(seconds) * 1e3, 3)
        row["spread"] = round(spread(seconds), 3)
        self.rows.append({**row, **more})
        return rate

    def bar(self, name: str, value: float | None, bar: float | None, at_most: bool = False) -> None:
        """Add a bar; bar None: reported only; value None: not measured, so not met."""
        ok = None if bar is None else value is not None and (value <= bar if at_most else value >= bar)
        self.bars.append({"name": name, "value": None if value is None else round(value, 3), "bar": bar, "ok": ok})

    def show(self) -> None:
        for line in self.tables or self._listing():
            print(line)
        for note in self.notes:
            print(note)
        for bar in self.bars:
            verdict = {True: "met", False: "MISSED", None: "reported"}[bar["ok"]]
            value = bar["value"]
            if value is None:
                verdict, value = "not measured", "–"
            wanted = "" if bar["bar"] is None else f" (bar {bar['bar']})"
            print(f"{bar['name']:<34} {value:>12}{wanted}  {verdict}")
        print(self.json_line())

    def json_line(self) -> str:
        return json.dumps({"bench": self.bench, "machine": machine(), "rows": self.rows, "bars": self.bars})

    def plot(self, path: str) -> None:
        rates = {row["name"]: float(row["events_per_s"]) for row in self.rows if "events_per_s" in row}
        charts = self.charts or [chart.Bars("throughput", {"events/s": rates}, "events/s")]
        chart.save(charts, f"morphspark bench {self.bench}, {machine()['cores']} cores", path)

    def _listing(self) -> list[str]:
        return [
            f"{row['name']:<34} {row['events_per_s']:>12,} events/s   {row['median_ms']:>10.2f} ms"
            f"  ±{100 * row['spread']:.0f} %"
            for row in self.rows
        ]


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_name(),
        "cores": morphspark.Config().thread_count,  # that the process may use
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
