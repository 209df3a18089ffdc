"""The same strategies over several workloads: a contest at each, a row for each strategy there, a table and a chart."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from morphspark.bench import chart
from morphspark.bench.contest import Outcome, contest
from morphspark.bench.lineup import Entrant, entrants
from morphspark.bench.progress_bar import ProgressBar
from morphspark.bench.report import Report
from morphspark.bench.scale import Scale
from morphspark.bench.table import rate, text_table
from morphspark.bench.workloads.workload import Workload

LOG_BEYOND = 5.0


@dataclass(frozen=True)
class Point:
    label: str
    make: Callable[[], Workload]
    knobs: Mapping[str, Any]  # for the rows


@dataclass(frozen=True)
class Axis:
    """Points between which one thing differs: the columns of a table, and the places of a chart."""

    title: str
    points: Sequence[Point]
    label: str  # what differs


def sweep(
    report: Report,
    axes: Sequence[Axis],
    names: Sequence[str],
    scale: Scale,
    nested: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Outcome]:
    """Outcomes by the labels of points, with a table and a chart for each axis; `nested` as in `lineup.entrants`."""
    who = entrants(names, nested=nested)
    points = [point for axis in axes for point in axis.points]
    outcomes = {}
    with ProgressBar(len(points)) as bar:
        for point in points:
            bar.step(point.label)
            outcome = contest(point.make(), who, scale, scale.turns(len(points)), bar)
            add_rows(report, outcome, {"workload": point.label, **point.knobs}, who)
            outcomes[point.label] = outcome
    for axis in axes:
        own = {point.label: outcomes[point.label] for point in axis.points}
        report.tables += [*rates_table(axis.title, own, names), ""]
        report.charts.append(_rates_chart(axis, own, names))
    return outcomes


def add_rows(report: Report, outcome: Outcome, knobs: Mapping[str, Any], who: Sequence[Entrant]) -> None:
    for entrant in who:
        more = {"wall_ms": round(outcome.wall_ms(entrant.name), 3), **knobs}
        if entrant.learns:
            more["decision"] = usual_decision(outcome, entrant.name)
        report.measured(entrant.name, outcome.events, outcome.seconds(entrant.name), **more)


def usual_decision(outcome: Outcome, name: str) -> str:
    return statistics.mode(sample.record["strategy"] for sample in outcome.samples[name])


def rates(outcome: Outcome) -> dict[str, float]:
    return {name: outcome.rate(name) for name in outcome.samples}


def rates_table(title: str, outcomes: Mapping[str, Outcome], names: Sequence[str]) -> list[str]:
    """Strategies down, workloads across; the fastest of each workload has a star."""
    columns = [rates(outcome) for outcome in outcomes.values()]
    rows = [
        [name, *(rate(column[name]) + (" *" if _fastest(column) == name else "  ") for column in columns)]
        for name in names
    ]
    return [title, *text_table(["  events/s, execute stage", *(f"{label}  " for label in outcomes)], rows)]


def _rates_chart(axis: Axis, outcomes: Mapping[str, Outcome], names: Sequence[str]) -> chart.Lines:
    """Logarithmic where workloads differ more than strategies, so that each can be seen."""
    columns = [rates(outcome) for outcome in outcomes.values()]
    lines = {name: [column[name] for column in columns] for name in names}
    fastest = [max(column.values()) for column in columns]
    y_scale = "log" if max(fastest) > LOG_BEYOND * min(fastest) else "linear"
    return chart.Lines(axis.title, list(outcomes), lines, axis.label, y_scale=y_scale)


def _fastest(column: Mapping[str, float]) -> str:
    return max(column, key=lambda name: column[name])
