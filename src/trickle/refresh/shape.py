"""Shape: what a definition depends on in its sources: the columns it uses, with their types, and the views it reads.

A change of anything else is no concern of the stream table's; a change of these makes it start anew and say why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.scan import Scan
from trickle.names import is_part

_VIEWS = "views"
_COLUMNS = "columns"
_UNDERSTOOD = "understood"


def shape(contents: Operator, text: str, fields: Mapping[str, Mapping[str, str]], views: Mapping[str, str]) -> str:
    """The shape as text, to be stored and compared; of a source read opaquely all columns count.

    `text` is the query as it was understood: the same columns and views may come to mean something else in it.
    """
    used: dict[str, set[str]] = {}
    whole = frozenset().union(*(node.sources for node in walk(contents) if isinstance(node, Opaque)))
    for node in walk(contents):
        if isinstance(node, Scan) and node.table not in whole:
            used.setdefault(node.table, set()).update(source for source, _ in node.reads)
    columns = {
        key: {name: text for name, text in every.items() if key not in used or name in used[key]}
        for key, every in fields.items()
    }
    understood = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return json.dumps({_COLUMNS: columns, _VIEWS: dict(views), _UNDERSTOOD: understood}, sort_keys=True)


def describe_difference(old: str, new: str) -> str:
    """What changed between two shapes, for people."""
    before, after = json.loads(old), json.loads(new)
    if not before[_COLUMNS] and not before[_VIEWS]:
        return "the query was changed"
    found = [
        f"view {name} was redefined"
        for name in sorted(set(before[_VIEWS]) | set(after[_VIEWS]))
        if before[_VIEWS].get(name) != after[_VIEWS].get(name)
    ]
    old_sources, new_sources = before[_COLUMNS], after[_COLUMNS]
    if any(is_part(key) for key in set(old_sources) ^ set(new_sources)):
        # What is read in place of what says nothing about the query.
        found.append("other inner results of the query are kept than before")
        old_sources, new_sources = _common(old_sources, new_sources), _common(new_sources, old_sources)
    for key in sorted(set(old_sources) | set(new_sources)):
        found += _columns(key, old_sources.get(key), new_sources.get(key))
    return "; ".join(found) or "the query uses its sources differently"


def _common(sources: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    return {key: columns for key, columns in sources.items() if key in others}


def _columns(key: str, old: dict[str, str] | None, new: dict[str, str] | None) -> list[str]:
    if old is None or new is None:
        return [f"the query {'now' if old is None else 'no longer'} reads {key}"]
    found = []
    for name in sorted(set(old) | set(new)):
        if name not in old:
            found.append(f"{key}.{name} is new to the query")
        elif name not in new:
            found.append(f"{key}.{name} is no longer used")
        elif old[name] != new[name]:
            was, now = _type(old[name]), _type(new[name])
            change = f"changed from {was} to {now}" if was != now else "was dropped and added again"
            found.append(f"{key}.{name} {change}")
    return found


def _type(field: str) -> str:
    kind: Any = json.loads(field)["type"]
    return kind if isinstance(kind, str) else str(kind.get("type", "struct"))
