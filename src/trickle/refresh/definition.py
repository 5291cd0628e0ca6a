"""Definition: what a refresh must know of a stream table that follows from its query and the shape of its sources."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql.types import StructType
from sqlglot import exp

from trickle.algebra.expressions import column, passing
from trickle.algebra.extract import is_looked_up
from trickle.algebra.filter import Filter
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.project import Project
from trickle.algebra.scan import Scan
from trickle.algebra.storage import Storage
from trickle.names import VISIBLE, is_part
from trickle.refresh.grouping import ungroupable
from trickle.store.sources import DeltaSource, ViewSource

READING = (
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.ansi.enforceReservedKeywords",
    "spark.sql.ansi.relationPrecedence",
    "spark.sql.groupByAliases",
    "spark.sql.groupByOrdinal",
    "spark.sql.orderByOrdinal",
    "spark.sql.parser.escapedStringLiterals",
)
"""Settings that decide how Spark reads a text. We read it as by default, and not at all where one is another."""

MEANING = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.timestampType",
    *READING,
)
"""Session settings that decide what a query means; a definition keeps those it was created under."""

LEGACY = "spark.sql.legacy."
"""Begins further such settings; where one was set, it was for a reason."""


@dataclass(frozen=True)
class Definition:
    """Everything about a stream table that follows from its query and the shape of its sources."""

    query: str
    sources: Mapping[str, str]
    """Source key → location, of what a refresh reads."""
    seen: Mapping[str, str]
    """Source key → location, of everything the query names, also what only parts read."""
    tree: Operator
    whole: Operator
    """The tree that reads no parts."""
    inner: Mapping[Operator, str]
    """Its inner results that are worth keeping → their texts."""
    storage: Storage
    schema: StructType
    """Of the public columns."""
    storage_schema: StructType
    fingerprint: str
    """The shape of what it uses in its sources; see shape.py."""
    database: str
    lookups: tuple[tuple[exp.Table, DeltaSource | ViewSource], ...]
    """What every name of the query stood for."""
    fields: Mapping[str, Mapping[str, str]]
    """Key of a source seen → all its columns, as compiled against."""
    volatile: bool = False
    """Whether the query may give another result although nothing changed."""
    wanted_parts: tuple[str, ...] = ()
    """The texts of inner results that would be worth keeping and are not; without them plain rules do."""
    written: Opaque | None = None
    """The query in its author's own words, where a full refresh may take them; see wording.py."""

    @property
    def checksum(self) -> str:
        return hashlib.blake2b(f"{self.database}\n{self.query}".encode(), digest_size=8).hexdigest()

    @property
    def opaque(self) -> Opaque | None:
        return self.storage.opaque

    def looks_up(self, text: str) -> bool:
        """Whether the inner result of this text is asked for its groups alone, wherever the query reads it."""
        return all(is_looked_up(node, self.whole) for node, known in self.inner.items() if known == text)

    @cached_property
    def is_transparent(self) -> bool:
        """Whether it asks tables for their columns alone; an opaque part may ask for more, like `_metadata`."""
        return not any(isinstance(node, Opaque) for node in walk(self.storage.contents))

    @cached_property
    def columns_read(self) -> Mapping[str, frozenset[str]]:
        """Source key → the columns that are read of it."""
        found: dict[str, frozenset[str]] = {}
        for node in walk(self.tree):
            if isinstance(node, Scan):
                found[node.table] = found.get(node.table, frozenset()).union(source for source, _ in node.reads)
        return found

    @property
    def incomparable(self) -> tuple[str, ...]:
        """Stored columns whose type Spark cannot compare; their rows cannot be found again to be deleted."""
        return tuple(field.name for field in self.storage_schema if _has_map(field.dataType.simpleString()))

    @property
    def ungroupable(self) -> tuple[str, ...]:
        """Columns of sources whose changes cannot be summed up; see grouping.py."""
        return ungroupable(self.tree, self.fields)

    @property
    def filtered(self) -> bool:
        return VISIBLE in self.storage.columns

    @property
    def recomputed(self) -> Operator:
        """What gives all that is stored. The author's own words name no inner results."""
        reads_parts = any(is_part(key) for key in self.sources)
        return self.storage.contents if self.written is None or reads_parts else self.written


@dataclass(frozen=True)
class KnownStreamTable:
    """What a definition must know of another stream table it reads."""

    key: str
    location: str
    columns: tuple[str, ...]
    filtered: bool

    def reading(self, names: tuple[str, ...], flag: str) -> Operator:
        """Its visible rows, columns in order under these names; `flag` is a name that nothing else has."""
        reads = tuple(zip(self.columns, names, strict=True))
        if not self.filtered:
            return Scan(self.key, reads)
        return Project(Filter(Scan(self.key, (*reads, (VISIBLE, flag))), column(flag)), passing(names))


def _has_map(kind: str) -> bool:
    return "map<" in kind or "variant" in kind
