"""Report: the results of a run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from trickle.bench.samples import LOAD, Results
from trickle.bench.ways import ALL, BASELINE, DIFFERENTIAL, TICK


def markdown(results: Results) -> str:
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    yield f"## {results.workload}"
    yield ""
    yield f"`{results.command}`"
    yield ""
    yield ", ".join(f"{name} {value}" for name, value in results.machine.items())
    for change in results.changes:
        yield ""
        yield f"### {_title(change)}"
        yield ""
        yield from _table(results, change)


def _title(change: float | str) -> str:
    return "First load" if change == LOAD else f"{float(change) * 100:g} % of the rows changed"


def _table(results: Results, change: float | str) -> Iterator[str]:
    ways = results.ways(change)
    others = [way for way in ways if way != BASELINE]
    heads = [*(f"{way}, s" for way in ways), *(f"{way}, ×" for way in others)]
    yield f"| query | {' | '.join(heads)} | auto took |"
    yield "|---|" + "---:|" * (len(ways) + len(others)) + "---|"
    for query in results.queries:
        spreads = [results.spread(query, way, change) for way in ways]
        seconds = (f"{item.median:.2f} ({item.lowest:.2f}–{item.highest:.2f})" if item else "–" for item in spreads)
        ratios = (_times(results.ratio(query, way, change)) for way in others)
        took = ", ".join(results.actions(query, "auto", change))
        yield f"| {query} | {' | '.join(seconds)} | {' | '.join(ratios)} | {took} |"
    means = (_times(results.geometric_mean(way, change)) for way in others)
    yield f"| **geometric mean** | {' | '.join('' for _ in ways)} | {' | '.join(means)} | |"
    tick = results.spread(ALL, TICK, change)
    if tick:
        sums = sum(item.median for query in results.queries if (item := results.spread(query, BASELINE, change)))
        yield ""
        yield (
            f"One tick over all of them: {tick.median:.2f} s ({tick.lowest:.2f}–{tick.highest:.2f}) against "
            f"{sums:.2f} s of plain Spark, {_times(results.tick_ratio(change))}."
        )
    if DIFFERENTIAL in ways:
        yield ""
        yield f"Differential and faster than plain Spark: {_won(results, change)} of {len(results.queries)}."


def _won(results: Results, change: float | str) -> int:
    ratios = (results.ratio(query, DIFFERENTIAL, change) for query in results.queries)
    return sum(ratio is not None and ratio > 1 for ratio in ratios)


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}×"
