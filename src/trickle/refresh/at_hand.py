"""At hand: what a refresh holds in the driver, and what it makes of that without Spark.

Every leaf of a program has a name: a source, a source as it was before, a step. What is held under it is rows, which go
to Spark when that first asks for them, or a result that Spark keeps. Plain parts of a tree over rows at hand are
computed here, so that little is left to plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expressions import Expression
from trickle.algebra.filter import Filter, stripped
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, rewrite, walk
from trickle.algebra.over import Over
from trickle.algebra.program import searched
from trickle.algebra.project import Project, exactly
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Reading, Scan
from trickle.algebra.semi_join import SemiJoin, Without
from trickle.algebra.storage import STORED
from trickle.refresh.definition import LEGACY, MEANING
from trickle.refresh.plain import Plain, Types, plain_nodes, split_condition, types_in_table
from trickle.refresh.plan import RefreshPlan
from trickle.store.delta_log import Snapshot
from trickle.store.duck import FILE, PLACE, Keys, Leaf, Reads
from trickle.store.files import DataFiles, Files
from trickle.store.leaves import PinnedLeaves, held, template
from trickle.store.light import is_light, read
from trickle.store.patch import may_patch
from trickle.store.searches import Searches, Wider
from trickle.store.types import is_itself
from trickle.store.workspace import Kept, Workspace

_NARROWING = (Project, Filter, Aggregate, Over, SemiJoin, Without)
"""Of these the first input has at least as many rows: where there are too many of them, it is not tried either."""


@dataclass
class AtHand:
    """What one refresh holds, by the names under which leaves look for it."""

    plan: RefreshPlan
    workspace: Workspace
    files: Files
    searches: Searches
    feeds: dict[str, str] = field(default_factory=dict)
    """Change feed that several stream tables share → its view."""
    placed: pa.Table | None = None
    """The stored rows that were searched for, and where they are, in a table that is patched."""
    _kept: dict[str, Kept] = field(default_factory=dict)
    _inlined: dict[str, Operator] = field(default_factory=dict)
    """Step that is computed wherever it is used → how."""
    _files: dict[str, DataFiles | None] = field(default_factory=dict)
    """Table that DuckDB may read whole → its files; None where it may not."""

    def hold(self, name: str, kept: Kept) -> None:
        self._kept[name] = kept

    def inline(self, step: str, node: Operator) -> None:
        """From now on a step is computed wherever it is used."""
        self._inlined[step] = node

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def __getitem__(self, name: str) -> Kept:
        return self._kept[name]

    def read_small(self, trees: Iterable[Operator]) -> None:
        """Reads each small table once, whole, in the columns that trees use; where it must, as it was before too."""
        columns: dict[tuple[str, Reading], dict[str, None]] = {}
        for node in chain.from_iterable(map(walk, trees)):
            for table, reading, names in self._readings(node):
                columns.setdefault((table, reading), {}).update(dict.fromkeys(names))
        for (table, reading), names in columns.items():
            self.read(table, reading, list(names))

    def read(self, table: str, reading: Reading, columns: Sequence[str]) -> None:
        """Reads a table whole, if it is small."""
        snapshot = self.snapshot(table)
        if snapshot is None or not is_light(snapshot):
            return
        version = snapshot.version if reading is Reading.AFTER else self.plan.versions[table].before
        rows = self.whole(snapshot, version)
        # Where history is gone, or the table had other columns then, Spark finds it out and says so.
        if rows is not None and {*columns} <= {*rows.column_names}:
            # Rows of no columns still count; Arrow cannot hold them, so they carry the first one.
            rows = rows.select(columns or rows.column_names[:1])
            schema, step = snapshot.schema(rows.column_names), f"source_{len(self._kept) + 1}"
            self.hold(held(table, reading), self.workspace.keep_local(rows, schema, step))

    def whole(self, snapshot: Snapshot, version: int) -> pa.Table | None:
        """All rows of a small table at a version; None where files or log of that are gone."""
        return self.searches.shelf.get(_whole(snapshot, version), lambda: read(snapshot, version))

    def put_whole(self, snapshot: Snapshot, version: int, rows: pa.Table) -> None:
        """The rows that a table has at another version: whoever wrote them need not read them."""
        self.searches.shelf.put(_whole(snapshot, version), rows.combine_chunks())

    def _readings(self, node: Operator) -> Iterator[tuple[str, Reading, Iterable[str]]]:
        """What a node reads: table, moment, columns. An opaque query may read any column of its sources."""
        if isinstance(node, Scan) and node.reading is not Reading.DELTA:
            yield node.table, node.reading, (source for source, _ in node.reads)
        if isinstance(node, Opaque):
            for table in sorted(node.sources):
                reading = Reading.BEFORE if table in node.before else Reading.AFTER
                yield table, reading, self.plan.pins[table].fields

    def snapshot(self, table: str) -> Snapshot | None:
        return self.plan.stored if table == STORED else self.plan.pins.get(table)

    # For Spark

    def text(self, node: Operator) -> str:
        """The query that computes a tree, over what is held."""
        return template(node).filled(PinnedLeaves(self.plan.versions, self._view))

    def _view(self, name: str) -> str | None:
        """The view in which Spark finds what is held under a name; None where it reads the Delta table itself."""
        if name in self._kept:
            return self._kept[name].view
        snapshot = next((self.snapshot(key) for key in self.plan.versions if held(key, Reading.AFTER) == name), None)
        if snapshot and not is_light(snapshot):
            return self.files.view(snapshot)
        return self.feeds.get(name)

    def is_far(self, node: Operator) -> bool:
        """Whether Spark has to read a leaf, rather than having it handed over."""
        if isinstance(node, Scan | Reference):
            kept = self._held(node)
            return kept is None or kept.local is None
        return isinstance(node, Opaque)

    # Without Spark

    def matching(self, gather: SemiJoin, keys: pa.Table, name: str, wider: Wider) -> Operator | None:
        """The rows of a large table that match keys at hand, where they can be found here.

        What only Spark can tell of their condition is told where they are used.
        """
        scan = searched(gather)
        assert scan is not None
        snapshot = self.snapshot(scan.table)
        if snapshot is None:
            return None
        here, rest = None, None
        if isinstance(gather.input, Filter):
            here, rest = self.split(gather.input.condition, snapshot, scan.reads)
        found = self._found(snapshot, scan, Keys(gather.pairs, keys, gather.null_safe), here, wider, name)
        if found is None:
            return None
        self.hold(name, found)
        rows = Reference(name, scan.columns)
        return rows if rest is None else Filter(rows, rest)

    def split(
        self, condition: Expression, snapshot: Snapshot, reads: Reads
    ) -> tuple[Expression | None, Expression | None]:
        """What of a condition on the rows of a table can be told here, and what only Spark can tell."""
        return split_condition(condition, {} if self._is_legacy else types_in_table(snapshot, reads))

    def _found(
        self, snapshot: Snapshot, scan: Scan, keys: Keys, condition: Expression | None, wider: Wider, name: str
    ) -> Kept | None:
        fields = snapshot.schema(source for source, _ in scan.reads)
        schema = StructType(
            [StructField(name, field.dataType) for (_, name), field in zip(scan.reads, fields, strict=True)]
        )
        if not keys.values.num_rows:
            return self.workspace.keep_local(to_arrow_schema(schema).empty_table(), schema, name)
        if scan.table == STORED and condition is None and may_patch(snapshot):
            rows = self._found_stored(snapshot, scan, keys)
        else:
            rows = self.searches.matching(snapshot, scan.reads, keys, condition, wider)
        return self.workspace.keep_local(rows, schema, name) if rows is not None else None

    def _found_stored(self, snapshot: Snapshot, scan: Scan, keys: Keys) -> pa.Table | None:
        """Where these rows are is found with them: whatever becomes of them, they are not searched for again."""
        found = self.searches.duck.placed(snapshot, scan.reads, keys)
        if found is None:
            return None
        self.placed = found.rename_columns([FILE, PLACE, *(source for source, _ in scan.reads)])
        return found.drop_columns([FILE, PLACE])

    def nearer(self, root: Operator, *, even_if_trivial: bool = False) -> Operator:
        """The tree with each plain part of it over rows at hand replaced by what it comes to."""
        tree = self.with_inlined(root)
        if self._is_legacy:
            return tree
        plain = plain_nodes(tree, self._types)

        def replaced(node: Operator, is_too_much: bool = False) -> Operator:
            is_worth_it = not self._is_trivial(node) or (even_if_trivial and node is tree)
            if node in plain and is_worth_it and not is_too_much:
                found = self._computed(node, plain[node])
                if found:
                    return found
                is_too_much = True
            more = node.inputs[:1] if is_too_much and isinstance(node, _NARROWING) else ()
            return node.with_inputs(tuple(replaced(child, child in more) for child in node.inputs))

        return replaced(tree)

    def entire(self, root: Operator) -> Kept | None:
        """All that a tree comes to, where nothing in it is Spark's; None of any other, and where it is too much."""
        plain = {} if self._is_legacy else plain_nodes(root, self._types)
        found = self._computed(root, plain[root]) if root in plain and not self._is_all_of_much(root) else None
        return self._kept[found.step] if found else None

    def _is_all_of_much(self, node: Operator) -> bool:
        """Whether a node has all the rows of a table, and these are more than can be held."""
        while isinstance(node, Project | Over):
            node = node.input
        if not isinstance(node, Scan):
            return False
        rows = self.plan.pins[node.table].rows
        return rows is None or not self.searches.duck.may_hold(rows)

    @property
    def _is_legacy(self) -> bool:
        """Whether the query was written under a setting with which Spark computes as nobody else does."""
        settings = self.plan.stream_table.settings
        if settings.get("spark.sql.decimalOperations.allowPrecisionLoss", "true").lower() != "true":
            return True
        return any(key.startswith(LEGACY) and key not in MEANING for key in settings)

    def with_inlined(self, root: Operator) -> Operator:
        """The tree with the steps in it that are computed wherever they are used."""

        def put(node: Operator) -> Operator:
            if isinstance(node, Reference) and node.step in self._inlined:
                return exactly(self._inlined[node.step], node.columns)
            return node

        return rewrite(root, put) if self._inlined else root

    def _computed(self, node: Operator, plain: Plain) -> Reference | None:
        if isinstance(node, Reference):
            return node
        # The same tree has the same name in every refresh, so what is written above it stays the same too.
        name = f"near_{node.digest}"
        if name in self._kept:
            return Reference(name, node.columns)
        rows = self.searches.duck.computed(plain.tree, self._leaf, pa.schema(list(plain.types.items())))
        if rows is None:
            return None
        schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
        self.hold(name, self.workspace.keep_local(rows, schema, name))
        return Reference(name, node.columns)

    def _leaf(self, name: str) -> Leaf:
        kept = self._kept.get(name)
        found = kept.local if kept is not None and kept.local is not None else self._files[name]
        assert found is not None
        return found

    def _types(self, leaf: Scan | Reference) -> Types | None:
        kept = self._held(leaf)
        if kept is None and isinstance(leaf, Scan):
            return self._types_in_files(leaf)
        if kept is None or kept.local is None:
            return None
        reads = leaf.reads if isinstance(leaf, Scan) else [(name, name) for name in leaf.names]
        return {name: kept.local.schema.field(source).type for source, name in reads if is_itself(kept.schema[source])}

    def _types_in_files(self, scan: Scan) -> Types | None:
        snapshot = self.snapshot(scan.table)
        if snapshot is None or scan.reading is Reading.DELTA or not self._find_files(snapshot, scan):
            return None
        return types_in_table(snapshot, scan.reads)

    def _find_files(self, snapshot: Snapshot, scan: Scan) -> bool:
        """Whether DuckDB may read a table whole, from files that are known from now on."""
        name = held(scan.table, scan.reading)
        if name not in self._files:
            version = self.plan.versions[scan.table].before if scan.reading is Reading.BEFORE else snapshot.version
            self._files[name] = self.searches.duck.files(snapshot, version)
        return self._files[name] is not None

    def _held(self, leaf: Scan | Reference) -> Kept | None:
        return self._kept.get(held(leaf.table, leaf.reading) if isinstance(leaf, Scan) else leaf.step)

    def _is_trivial(self, node: Operator) -> bool:
        """Whether Spark reads a node as easily as what it is made of: renamed rows, and files row by row."""
        while isinstance(node, Project):
            node = node.input
        if isinstance(node, Scan | Reference):
            return True
        below = stripped(node)
        return isinstance(below, Scan) and self.is_far(below)


def _whole(snapshot: Snapshot, version: int) -> Hashable:
    """The name of all rows of a table at a version, among rows at hand."""
    return "table", snapshot.location, snapshot.table_id, version
