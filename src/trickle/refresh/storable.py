"""Storable: whether what a query returns can be stored: names of its own, not ours, and types that Delta has."""

from __future__ import annotations

from pyspark.sql.types import StructType

from trickle.errors import UserError
from trickle.names import is_hidden

_UNSTORABLE = {"void": "it has no type: cast it, for example CAST(NULL AS STRING)"}


def check_columns(name: str, schema: StructType) -> None:
    """Raises UserError where the columns of a query's result cannot be those of a stream table."""
    seen: set[str] = set()
    for field in schema:
        lowered = field.name.lower()
        if lowered in seen:
            raise UserError(
                "duplicate-column",
                f'stream table "{name}" would have two columns called "{field.name}"',
                hint="give one of them another name with AS.",
            )
        if is_hidden(lowered) or lowered in ("_change_type", "_commit_version", "_commit_timestamp"):
            raise UserError(
                "reserved-column",
                f'the column name "{field.name}" is reserved',
                hint="give it another name with AS.",
            )
        if "`" in field.name:
            raise UserError(
                "unsupported-identifier",
                f'the column name "{field.name}" has a backtick',
                detail="Delta cannot write the change feed of such a column.",
                hint="give it another name with AS.",
            )
        seen.add(lowered)
        kind = field.dataType.simpleString()
        if kind in _UNSTORABLE or kind.startswith("interval"):
            raise UserError(
                "unstorable-type",
                f'column "{field.name}" cannot be stored: {_UNSTORABLE.get(kind, f"Delta has no type {kind}")}',
            )
