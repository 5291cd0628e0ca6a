"""Patch: few rows that come, change and go, in one commit that is written here.

Copying on write, every file with a changed row in it is written again: 3 s for ten million rows of which one percent
changed all over. So rows of a large table are deleted where they are, by vectors, and new ones go into a file of their
own, in tens of milliseconds. What readers pay for it is bounded: files of which much is deleted are written again
between refreshes, and small files are put together (tidy.py). A small table is written anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trickle.names import OP
from trickle.store.commits import Operation, removed, transaction
from trickle.store.delta_log import Snapshot
from trickle.store.light import SMALL_BYTES, is_light, may_append
from trickle.store.writer import writing

PATCHED_BYTES = SMALL_BYTES
"""Smaller tables are read whole anyway, and written anew as quickly."""


@dataclass(frozen=True)
class Touched:
    """The stored rows that a merge updates or deletes, and what becomes of each (OP)."""

    snapshot: Snapshot
    rows: pa.Table
    rest: pa.Table | None = None
    """All the others, where the table is written anew; where it is not, it is known where the touched ones are."""

    def contents(self, merged: pa.Table) -> pa.Table | None:
        """All rows that are stored once these are merged; None where the others are left where they are."""
        if self.rest is None:
            return None
        return pa.concat_tables([self.rest, arrivals_of(merged).select(self.rest.column_names).cast(self.rest.schema)])


def arrivals_of(merged: pa.Table) -> pa.Table:
    """The rows of a merge that are stored after it: those that are inserted or updated."""
    return merged.filter(pc.not_equal(merged.column(OP), "D"))


def may_patch(snapshot: Snapshot) -> bool:
    """Whether a table of ours is so large that its files are better left as they are."""
    return snapshot.size_in_bytes > PATCHED_BYTES and bool(snapshot.files) and may_append(snapshot)


def may_replace(snapshot: Snapshot) -> bool:
    """Whether a table of ours is so small that it is better written anew."""
    return not may_patch(snapshot) and is_light(snapshot) and bool(snapshot.files) and may_append(snapshot)


def append(snapshot: Snapshot, rows: pa.Table, application: str, sequence: int, metadata: str) -> None:
    """Rows that come. Raises Overtaken, Unknown; then nothing was written."""
    with writing(snapshot) as writer:
        own = transaction(writer.place, snapshot.version, application, sequence)
        added = writer.add(rows, is_change=True)
        metrics = {"numFiles": 1, "numOutputRows": rows.num_rows, "numOutputBytes": added["add"]["size"]}
        operation = Operation("WRITE", metrics, {"mode": "Append", "partitionBy": "[]"}, metadata)
        writer.commit(operation, [added, own])


def patch(touched: Touched, rows: pa.Table, application: str, sequence: int, metadata: str) -> None:
    """Rows inserted (`I`) or updated (`U`), and those that are touched taken away. Raises Overtaken, Unknown.

    Whatever it raises, nothing was written.
    """
    with writing(touched.snapshot) as writer:
        own = transaction(writer.place, touched.snapshot.version, application, sequence)
        arrivals, written = arrivals_of(rows), touched.contents(rows)
        if written is None:
            actions, written = [*writer.upgrade(), *writer.delete(touched.rows)], arrivals
        else:
            actions = [removed(add, is_change=True) for add in writer.state.files.values()]
        if written.num_rows:
            actions.append(writer.add(written, is_change=True))
        actions.append(writer.feed(touched.rows, arrivals))
        actions.append(own)
        counts = {kind: pc.sum(pc.equal(arrivals.column(OP), kind)).as_py() or 0 for kind in "IU"}
        metrics = {
            "numTargetRowsInserted": counts["I"],
            "numTargetRowsUpdated": counts["U"],
            "numTargetRowsDeleted": touched.rows.num_rows - counts["U"],
        }
        writer.commit(Operation("MERGE", metrics, metadata=metadata), actions)
