"""Chart: the results of a run as a picture, seconds on a logarithmic scale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trickle.bench.samples import LOAD, Results
from trickle.bench.ways import AUTO, BASELINE, DIFFERENTIAL
from trickle.errors import EnvironmentProblem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN = {BASELINE: ("plain Spark", "#9a9a9a"), DIFFERENTIAL: ("differential", "#5b8ff9"), AUTO: ("auto", "#2f9e6e")}


def draw(results: Results, place: Path) -> list[Path]:
    """Bars for every change, and where there are several, the gain by the size of it. Raises EnvironmentProblem."""
    changes = [change for change in results.changes if change != LOAD]
    files = []
    for change in changes:
        figure, axes = _canvas(max(6.0, 0.55 * len(results.queries) + 1.5), 3.6)
        for number, way in enumerate(way for way in _SHOWN if way in results.ways(change)):
            label, color = _SHOWN[way]
            spreads = [results.spread(query, way, change) for query in results.queries]
            places = [position + 0.27 * (number - 1) for position in range(len(spreads))]
            heights = [spread.median if spread else 0 for spread in spreads]
            axes.bar(places, heights, width=0.25, label=label, color=color)
        axes.set_yscale("log")
        axes.set_ylabel("seconds")
        axes.set_xticks(range(len(results.queries)), results.queries, rotation=60 if len(results.queries) > 10 else 20)
        axes.set_title(f"{results.workload}, {float(change) * 100:g} % changed", fontsize=10, loc="left")
        figure.legend(loc="outside upper right", fontsize=8, frameon=False, ncols=3)
        files.append(place / f"bars-{float(change) * 100:g}.svg")
        figure.savefig(files[-1])
    if len(changes) > 1:
        files.append(_crossover(results, [float(change) for change in changes], place))
    return files


def _crossover(results: Results, changes: list[float], place: Path) -> Path:
    """How many times faster than plain Spark, by the size of the change: one line for each query, and their mean."""
    figure, axes = _canvas(7, 4)
    percent = [change * 100 for change in changes]
    measured = [way for way in (DIFFERENTIAL, AUTO) if all(way in results.ways(change) for change in changes)]
    for query in results.queries if measured else ():
        axes.plot(percent, [results.ratio(query, measured[0], change) or 0 for change in changes], color="#c9d6f0")
    for way in measured:
        label, color = _SHOWN[way]
        means = [results.geometric_mean(way, change) or 0 for change in changes]
        axes.plot(percent, means, color=color, marker="o", label=f"{label}, geometric mean")
    axes.axhline(1, color="#9a9a9a", linestyle="--", label="plain Spark")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("% of the rows changed")
    axes.set_ylabel("times faster than plain Spark")
    axes.legend(fontsize=8, frameon=False)
    file = place / "crossover.svg"
    figure.savefig(file)
    return file


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415, as it comes with an extra that few need
    except ImportError:
        raise EnvironmentProblem(
            "no-matplotlib", "matplotlib is not installed", hint="pip install 'spark-trickle[bench]' brings it."
        ) from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
