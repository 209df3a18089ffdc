"""Charts as data, and drawing them with matplotlib, which is imported only then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from morphspark.errors import ConfigError

FORMATS = (".png", ".pdf", ".svg")
WIDTH_INCHES, HEIGHT_INCHES = 9.0, 4.5  # of one chart
BAR_INCHES = 0.28  # of height
WORDS_IN_A_ROW = 5  # more labels would overlap


@dataclass
class Lines:
    """A line for each name over the same places: numbers, or words that stand in their order."""

    title: str
    x: Sequence[Any]
    lines: Mapping[str, Sequence[float | str | None]]
    x_label: str
    y_label: str = "events/s"
    marks: Mapping[str, float] = field(default_factory=dict)  # where something begins
    y_scale: str = "linear"  # or log, or words: the values are no numbers

    def draw(self, axes: Any) -> None:
        for index, (name, values) in enumerate(self.lines.items()):
            style = ("-", "--", ":", "-.")[index // 10 % 4]  # colours repeat after ten
            y = [float("nan") if value is None else value for value in values]
            axes.plot(self.x, y, style, marker=".", label=name)
        for label, place in self.marks.items():
            axes.axvline(place, color="grey", linewidth=0.8)
            axes.annotate(label, (place, 1.01), xycoords=("data", "axes fraction"), fontsize=8)
        if self.y_scale == "log":
            axes.set_yscale("log")
        elif self.y_scale == "linear":
            axes.set_ylim(bottom=0)
            axes.ticklabel_format(axis="y", style="plain")
        if len(self.x) > WORDS_IN_A_ROW and isinstance(self.x[0], str):
            axes.tick_params(axis="x", labelrotation=25)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))

    @property
    def height_inches(self) -> float:
        return HEIGHT_INCHES


@dataclass
class Bars:
    """A bar for each name, in parts that stand end to end."""

    title: str
    parts: Mapping[str, Mapping[str, float]]  # part → name → length
    x_label: str

    def draw(self, axes: Any) -> None:
        names = list(dict.fromkeys(name for lengths in self.parts.values() for name in lengths))
        begin = [0.0] * len(names)
        for part, lengths in self.parts.items():
            own = [lengths.get(name, 0.0) for name in names]
            axes.barh(names, own, left=begin, label=part)
            begin = [left + length for left, length in zip(begin, own, strict=True)]
        axes.invert_yaxis()
        axes.set_xlabel(self.x_label)
        if len(self.parts) > 1:
            axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))

    @property
    def height_inches(self) -> float:
        return 1.2 + BAR_INCHES * max((len(lengths) for lengths in self.parts.values()), default=1)


Chart = Lines | Bars


def check_plot(path: str) -> None:
    """Fail before a long run rather than after it."""
    _matplotlib()
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise ConfigError(f"--plot {path}: expected a name that ends with {', '.join(FORMATS)}")
    if not target.absolute().parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no folder {target.absolute().parent}")


def save(charts: Sequence[Chart], title: str, path: str) -> None:
    figures = _matplotlib()
    heights = [chart.height_inches for chart in charts]
    figure = figures.Figure(figsize=(WIDTH_INCHES, sum(heights) + 0.5), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)
    for chart, axes in zip(charts, grid[:, 0], strict=True):
        axes.set_title(chart.title, fontsize=10, pad=14)
        axes.grid(alpha=0.3)
        chart.draw(axes)
    figure.savefig(path, dpi=120)


def _matplotlib() -> Any:
    try:
        import matplotlib.figure as figures
    except ImportError:
        raise ConfigError("--plot needs matplotlib, which is not installed: pip install 'morphspark[plot]'") from None
    return figures
