"""Parts: inner results of a query, kept as hidden stream tables under a name that follows from their text.

A part is a stream table like any other. What sets it apart is who knows of it: only the tables that read it do, and
it lives as long as one of them does.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from trickle.catalog.model import Mode, Status, StreamTable
from trickle.names import PART, is_part
from trickle.refresh.choose import Choice

_NAME = re.compile(re.escape(PART) + "[0-9a-f]+")


def part_name(text: str, database: str, settings: Mapping[str, str]) -> str:
    """The name under which everybody finds the part of this text."""
    meaning = "\n".join((database.lower(), *(f"{key}={value}" for key, value in sorted(settings.items())), text))
    return PART + hashlib.blake2b(meaning.encode(), digest_size=8).hexdigest()


def draft(root: str, text: str, reader: StreamTable) -> StreamTable:
    """The part of this text as the first table that reads it would have it."""
    name, identity = part_name(text, reader.database, reader.settings), str(uuid.uuid4())
    return replace(
        reader,
        id=identity,
        name=name,
        query=text,
        mode=Mode.DIFFERENTIAL if reader.mode is Mode.DIFFERENTIAL else Mode.AUTO,
        schedule=None,
        comment=None,
        status=Status.ACTIVE,
        sources={},
        location=f"{root}/stream_tables/{name}-{identity[:8]}",
        created_at=datetime.now(UTC),
        progress=None,
        suspended_reason=None,
        failures=0,
        hidden=True,
        measured=(),
    )


def discreet(choice: Choice) -> Choice:
    """A choice in words that do not name parts."""
    reason = _NAME.sub("an inner result of the query", choice.reason)
    parts = [key for key in choice.estimates if is_part(key)]
    names = {key: f"inner result {number}" for number, key in enumerate(parts, start=1)}
    return replace(
        choice, reason=reason, estimates={names.get(key, key): value for key, value in choice.estimates.items()}
    )
