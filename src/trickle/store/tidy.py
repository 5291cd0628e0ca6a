"""Tidy: the same rows of a table of ours in better files. Commits that change no data.

Many small files become one, files of which most is deleted are written without it, and rows are put in the order of
what identifies them, so that a search for few of them reads few row groups: of 15 million rows, 4,000 neighbours are
found in 8 ms instead of 200.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from trickle.store.commits import ROWS_OF_A_GROUP, Operation, bounds_of_groups, removed
from trickle.store.delta_log import SMALL_FILE, Snapshot
from trickle.store.light import has_exact_statistics, may_append
from trickle.store.patch import may_patch
from trickle.store.replay import Action, rows_of, vector_of
from trickle.store.types import is_fixed
from trickle.store.writer import Writer, writing

REWRITTEN_SHARE = 0.5
"""Of a file's rows; where more are deleted, it is written again without them, while a refresh waits for it."""

WORN_SHARE = 0.2
"""The same when there is nothing else to do."""

REWRITTEN_FILES = 32
"""So many small files become one."""

_REWRITTEN_BYTES = 256 * 1024 * 1024
"""Of worn files, so much at a time."""

ORDERED_VALUES = 32_000_000
"""Of rows that are put in order, so many values at a time, a text counting as four: about 1.5 GB while it is done."""

Identity = Callable[[], Sequence[str]]
"""The columns that identify the rows, asked for when they are needed."""


def is_untidy(snapshot: Snapshot) -> bool:
    """Whether there may be something to tidy up."""
    return may_append(snapshot) and bool(snapshot.files) and (_has_many(snapshot) or bool(snapshot.vectors))


def _has_many(snapshot: Snapshot) -> bool:
    return snapshot.small_files >= REWRITTEN_FILES


def tidy(snapshot: Snapshot, identity: Identity = tuple) -> None:
    """Rewrites files that are bad enough, the worst first. Raises Overtaken, Unknown."""
    if not is_untidy(snapshot):
        return
    with writing(snapshot) as writer:
        adds = writer.state.files.values()
        small = [add for add in adds if add["size"] < SMALL_FILE] if _has_many(snapshot) else []
        worst = sorted((add for add in adds if add not in small), key=_deleted_share, reverse=True)
        worn = _limited(
            worst, lambda add: _deleted_share(add) > REWRITTEN_SHARE, lambda add: int(add["size"]), _REWRITTEN_BYTES
        )
        _rewrite(writer, [small, *([add] for add in worn)], _order(snapshot, identity()))


def cluster(snapshot: Snapshot, identity: Identity) -> None:
    """Puts large files together that are worn or not in the order of the identity. Raises Overtaken, Unknown."""
    if not may_patch(snapshot):
        return
    order = _order(snapshot, identity())
    values = sum(1 if is_fixed(snapshot.type(name)) else 4 for name in snapshot.fields)
    with writing(snapshot) as writer:
        place = Path(writer.place)
        loose = _limited(
            (add for add in writer.state.files.values() if add["size"] >= SMALL_FILE),
            lambda add: (
                _deleted_share(add) > WORN_SHARE or bool(order and not _is_ordered(place / add["path"], order[0]))
            ),
            lambda add: values * (rows_of(add) or ORDERED_VALUES),
            ORDERED_VALUES,
        )
        _rewrite(writer, [loose], order)


def _rewrite(writer: Writer, groups: Iterable[list[Action]], order: Sequence[str]) -> None:
    """The rows of each group of files in a file of its own."""
    actions: list[Action] = []
    for group in filter(None, groups):
        rows = pa.concat_tables(writer.rows(add) for add in group)
        rows = rows.sort_by([(name, "ascending") for name in order]) if order else rows
        actions += [removed(add, is_change=False) for add in group]
        actions += [writer.add(rows, is_change=False)] if rows.num_rows else []
    if actions:
        metrics = {kind: sum(name in action for action in actions) for kind, name in _COUNTED.items()}
        writer.commit(Operation("OPTIMIZE", metrics), actions)


_COUNTED = {"numRemovedFiles": "remove", "numAddedFiles": "add"}


def _limited(
    adds: Iterable[Action], is_bad: Callable[[Action], bool], size: Callable[[Action], int], limit: int
) -> list[Action]:
    """The bad ones among files, as many as are rewritten at a time."""
    found, left = [], limit
    for add in adds:
        if size(add) <= left and is_bad(add):
            found.append(add)
            left -= size(add)
    return found


def _order(snapshot: Snapshot, identity: Sequence[str]) -> list[str]:
    """The columns of an identity that have an order about which all agree. A name with a dot may be a path, too."""
    known = (name for name in identity if name in snapshot.fields and "." not in name)
    return [name for name in known if has_exact_statistics(str(snapshot.type(name)))]


def _is_ordered(file: Path, column: str) -> bool:
    """Whether the row groups of a file follow each other; so they do if it cannot be told."""
    footer = parquet.read_metadata(file)
    place = next((each for each in range(footer.num_columns) if footer.schema.column(each).path == column), None)
    if place is None or footer.num_rows <= ROWS_OF_A_GROUP:
        return True
    if footer.num_row_groups * ROWS_OF_A_GROUP < footer.num_rows:
        return False
    return all(one[1] <= other[0] for one, other in pairwise(bounds_of_groups(footer, place)))


def _deleted_share(add: Action) -> float:
    """How much of a file is deleted."""
    vector = vector_of(add)
    return vector.rows / max(rows_of(add) or 1, 1) if vector else 0.0
