"""Replay: what the log of a local table comes to, action by action: protocol, metadata, transactions, live files.

delta-rs tells which files there are, but not which of their rows are deleted, nor what a commit has to say of a file to
take it away. Only commits that are new are read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from pyarrow import parquet

from trickle.store.delta_log import actions_of
from trickle.store.opened import Mark, commit_file, mark_of
from trickle.store.vectors import Vector

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_KEPT = 256
"""So many tables at a time."""

_PARSED = frozenset({"stats_parsed", "partitionValues_parsed"})
"""What a checkpoint of Spark's says twice."""

Action = Mapping[str, Any]


class Unknown(Exception):
    """The log cannot be replayed here: commits are gone, or a checkpoint is of another kind."""


@dataclass(frozen=True)
class State:
    """A table at a version."""

    version: int
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    files: Mapping[str, Action] = field(default_factory=dict)
    """Path → the `add` that made it what it is."""
    transactions: Mapping[str, int] = field(default_factory=dict)
    """Application → the newest of its transaction versions."""

    @property
    def vectors(self) -> dict[str, Vector]:
        """Path → the vector of its deleted rows, where it has any."""
        return {path: vector for path, add in self.files.items() if (vector := vector_of(add))}

    def after(self, version: int, actions: Iterable[Action]) -> State:
        """The table after one more commit. A file may go and come again in one, with another vector."""
        protocol, metadata, gone, added, made = self.protocol, self.metadata, set(), {}, {}
        for action in actions:
            protocol = action.get("protocol") or protocol
            metadata = action.get("metaData") or metadata
            if transaction := action.get("txn"):
                made[transaction["appId"]] = transaction["version"]
            if remove := action.get("remove"):
                gone.add(remove["path"])
            if add := action.get("add"):
                added[add["path"]] = add
        files = {path: add for path, add in self.files.items() if path not in gone} if gone else dict(self.files)
        transactions = {**self.transactions, **made} if made else self.transactions
        return State(version, protocol, metadata, files | added, transactions)


def vector_of(file: Action) -> Vector | None:
    """The vector of an `add` or `remove`."""
    found = file.get("deletionVector")
    return Vector.of(found) if found else None


def rows_of(add: Action) -> int | None:
    """How many rows a file has, deleted ones too; None where its statistics do not say."""
    found = json.loads(add["stats"]).get("numRecords") if add.get("stats") else None
    return int(found) if found is not None else None


_known: dict[str, tuple[tuple[Mark | None, State], ...]] = {}
"""Path → the newest version that was asked for and the one before, which refreshes read too; oldest first."""
_lock = Lock()


def replayed(path: str, version: int) -> State:
    """The table in a directory at a version. Raises Unknown."""
    with _lock:
        seen = _known.get(path, ())
    known = [(mark, state) for mark, state in seen if mark_of(path, state.version) == mark]
    earlier = [state for _, state in known if state.version <= version]
    try:
        state = earlier[-1] if earlier else _beginning(path, version)
        while state.version < version:
            state = state.after(state.version + 1, _actions(path, state.version + 1))
    except (OSError, ValueError, KeyError) as error:
        raise Unknown(str(error)) from error
    others = [(mark, other) for mark, other in known if other.version != version]
    newest = sorted([*others, (mark_of(path, version), state)], key=lambda pair: pair[1].version)[-2:]
    with _lock:
        _known.pop(path, None)
        _known[path] = tuple(newest)
        while len(_known) > _KEPT:
            _known.pop(next(iter(_known)))
    return state


def _beginning(path: str, version: int) -> State:
    """The newest checkpoint up to a version, or nothing."""
    names = (_CHECKPOINT.fullmatch(file.name) for file in (Path(path) / "_delta_log").glob("*.checkpoint.parquet"))
    found = [int(name[1]) for name in names if name and int(name[1]) <= version]
    if not found:
        return State(-1)
    newest = max(found)
    file = parquet.ParquetFile(Path(path) / "_delta_log" / f"{newest:020d}.checkpoint.parquet")
    kinds = {"add", "metaData", "protocol", "txn", "sidecar"} & {*file.schema_arrow.names}
    rows = file.read(columns=sorted(kinds)).to_pylist()
    if any(row.get("sidecar") for row in rows):
        raise Unknown("a checkpoint in several files")
    return State(-1).after(newest, map(_plain, rows))


def _plain(row: Action) -> Action:
    """A row of a checkpoint as a line of a commit: without what is not set, and with maps that are maps."""
    return {
        kind: {name: _value(name, value) for name, value in action.items() if value is not None and name not in _PARSED}
        for kind, action in row.items()
        if action is not None
    }


def _value(name: str, value: Any) -> Any:
    if name in ("partitionValues", "tags", "configuration"):
        return dict(value)
    if name == "format":
        return {"provider": value["provider"], "options": dict(value.get("options") or ())}
    if name == "deletionVector":
        return {key: item for key, item in value.items() if item is not None}
    return value


def _actions(path: str, version: int) -> Iterator[Action]:
    return actions_of(commit_file(path, version).read_text(encoding="utf-8"))
