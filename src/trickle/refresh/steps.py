"""Steps: runs a program up to its last step, which is computed where it is applied.

Small tables are read whole, large ones searched for the keys of the change. A small result goes through the driver and
is at hand from then on, the rest stays with Spark. Steps that do not need each other run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from trickle.algebra.filter import Filter
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, rewrite, walk
from trickle.algebra.program import Program, Step, StepKind
from trickle.algebra.project import Project, exactly
from trickle.algebra.prune import prune
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Reading, Scan
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.storage import STORED
from trickle.engine.machine import cores
from trickle.names import WEIGHT
from trickle.refresh.apply import Change
from trickle.refresh.gather import narrowed
from trickle.refresh.plain import Types, plain_nodes
from trickle.refresh.plan import RefreshPlan
from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck, Keys, Leaf
from trickle.store.feeds import Feeds
from trickle.store.files import Files
from trickle.store.leaves import PinnedLeaves, changes, held, template
from trickle.store.light import CHANGE_TYPE, is_light, read, read_changes, read_earlier
from trickle.store.types import is_fed
from trickle.store.workspace import Kept, Workspace

T = TypeVar("T")

INLINED = 3_000
"""Characters of SQL up to which a step over rows at hand is computed wherever it is used: a job costs more than that.

Without a limit plans grow with every step that names another twice, and Spark spends half a minute on reading one.
"""

_REMEMBERED = 10_000
"""Of so many steps at most it is known that they were large: tables come and go."""


@dataclass
class Resources:
    """What the refreshes of one session share, one after the other."""

    session: SparkSession
    feeds: Feeds
    files: Files
    duck: Duck
    large: set[tuple[str, str]] = field(default_factory=set)
    """Stream table and step whose result was too large to be held here the last time."""
    workers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(cores(), "trickle-step"))
    """Half of what a small step takes is Spark's planning, on one core."""

    def trim(self) -> None:
        """Gives back what has become too much, between refreshes."""
        self.feeds.trim()
        self.files.trim()
        if len(self.large) > _REMEMBERED:
            self.large.clear()

    def close(self) -> None:
        """Gives everything back, unless Spark has ended before."""
        self.workers.shutdown()
        self.feeds.close()
        self.duck.close()


class Steps:
    """The steps of one refresh under way."""

    def __init__(self, resources: Resources, plan: RefreshPlan, workspace: Workspace, refresh_id: str) -> None:
        self._resources = resources
        self._plan = plan
        self._workspace = workspace
        self._refresh_id = refresh_id
        self._kept: dict[str, Kept] = {}
        """What is held, by the name under which `leaves` looks for it."""
        self._inlined: dict[str, Operator] = {}
        """Step that is computed wherever it is used → how."""
        self._files: dict[str, list[str]] = {}
        """Table that DuckDB may read whole → its files; none where it may not."""
        self._feeds: dict[str, str] = {}
        """Change feed that several stream tables share → its view."""

    def read_feeds(self, program: Program) -> dict[str, Kept]:
        """The changes of every source. They may turn out to be none, and then another program is the one to run."""
        feeds = {step.table: step for step in program.steps if step.kind is StepKind.CHANGES}
        return self._at_once({table: partial(self._read_feed, step) for table, step in feeds.items()})

    def _read_feed(self, step: Step) -> Kept:
        window = next(window for window in self._plan.windows if window.key == step.table)
        source, columns = self._plan.pins[step.table], [name for name in step.operator.columns if name != WEIGHT]
        few = self._resources.duck.may_hold(window.rows_changed)
        rows = read_changes(source, window.before, columns) if few else None
        if rows is None:
            versions = self._plan.versions[step.table]
            shared = self._resources.feeds.view(versions, window.rows_changed, columns, source.fields)
            if shared:
                self._feeds[changes(step.table)] = shared
            return self.keep(self.frame(step.operator), f"feed_{step.name}")
        summed = self._resources.duck.summed(rows, source, columns)
        if summed is not None:
            return self._workspace.keep_local(summed, source.schema(columns).add(WEIGHT, LongType()), step.name)
        schema = source.schema(columns).add(CHANGE_TYPE, StringType())
        self.use(changes(step.table), self._workspace.keep_local(rows.select(schema.names), schema, f"log_{step.name}"))
        return self.keep(self.frame(step.operator), f"feed_{step.name}")

    def gather(self, program: Program, feeds: Mapping[str, Kept]) -> Change:
        """Runs every step but the last, whose result is computed where it is applied, unless it is at hand."""
        self._read_small(program)
        for step in program.steps[:-1]:
            if step.kind is StepKind.CHANGES:
                self.use(step.name, feeds[step.table])
        others = [step for step in program.steps[:-1] if step.kind is not StepKind.CHANGES]
        self._at_once({step.name: partial(self._run_step, step) for step in others}, _needs(others))
        return self.change(program.result.operator)

    def change(self, node: Operator) -> Change:
        """The rows of a tree where they are at hand, otherwise the query that computes them."""
        result = self._nearer(node, even_if_trivial=True)
        return self._kept[result.step] if isinstance(result, Reference) else self._text(result)

    def _run_step(self, step: Step) -> None:
        """Over rows at hand a short step is computed where it is used, all others once."""
        if step.kind is StepKind.GATHER and step.table not in self._kept:
            self.use(step.name, self._gathered(step))
            return
        node = self._nearer(step.operator)
        if isinstance(node, Reference):
            self.use(step.name, self._kept[node.step])
        elif any(self._is_far(leaf) for leaf in walk(node)) or len(self._text(node)) > INLINED:
            self.use(step.name, self.keep(self.frame(node), step.name))
        else:
            self._inlined[step.name] = node

    def _gathered(self, step: Step) -> Kept:
        """The rows of a large table that match the keys; without keys nothing is read."""
        gather = step.operator
        assert isinstance(gather, SemiJoin)
        wanted = frozenset(key for _, key in gather.pairs)
        keys = self._nearer(prune(self._with_inlined(gather.keys), wanted), even_if_trivial=True)
        if not isinstance(keys, Reference):
            name = f"{step.name}_keys"
            self.use(name, self.keep(self.frame(keys), name))
            keys = Reference(name, keys.columns)
        gather = replace(gather, keys=keys)
        values = self._kept[keys.step].local
        if values is None:
            return self.keep(self.frame(gather), step.name)
        found = self._found(step.name, gather, values)
        return found or self.keep(self.frame(narrowed(gather, values)), step.name)

    def _found(self, name: str, gather: SemiJoin, values: pa.Table) -> Kept | None:
        """The rows that match keys at hand, where they can be found without Spark."""
        scan = gather.input
        assert isinstance(scan, Scan)
        snapshot = self._snapshot(scan.table)
        if snapshot is None:
            return None
        fields = snapshot.schema(source for source, _ in scan.reads)
        schema = StructType(
            [StructField(name, field.dataType) for (_, name), field in zip(scan.reads, fields, strict=True)]
        )
        if not values.num_rows:
            return self._workspace.keep_local(to_arrow_schema(schema).empty_table(), schema, name)
        rows = self._resources.duck.matching(snapshot, scan.reads, Keys(gather.pairs, values, gather.null_safe))
        return self._workspace.keep_local(rows, schema, name) if rows is not None else None

    # Rows at hand

    def _nearer(self, root: Operator, *, even_if_trivial: bool = False) -> Operator:
        """The tree with each plain part of it over rows at hand replaced by what it comes to."""
        tree = self._with_inlined(root)
        plain = plain_nodes(tree, self._types_at_hand)

        def replaced(node: Operator) -> Operator:
            if node in plain and (not self._is_trivial(node) or (even_if_trivial and node is tree)):
                found = self._computed(node, plain[node])
                if found:
                    return found
            return node.with_inputs(tuple(replaced(child) for child in node.inputs))

        return replaced(tree)

    def _computed(self, node: Operator, types: Types) -> Reference | None:
        if isinstance(node, Reference):
            return node
        rows = self._resources.duck.computed(node, self._leaf, pa.schema(list(types.items())))
        if rows is None:
            return None
        # The same tree has the same name in every refresh, so what is written above it stays the same too.
        name = f"near_{node.digest}"
        self.use(
            name, self._workspace.keep_local(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True), name)
        )
        return Reference(name, node.columns)

    def _leaf(self, name: str) -> Leaf:
        kept = self._kept.get(name)
        return kept.local if kept is not None and kept.local is not None else self._files[name]

    def _types_at_hand(self, leaf: Scan | Reference) -> Types | None:
        kept = self._held(leaf)
        reads = leaf.reads if isinstance(leaf, Scan) else [(name, name) for name in leaf.names]
        if kept is None and isinstance(leaf, Scan):
            return self._types_in_files(leaf)
        if kept is None or kept.local is None:
            return None
        return {name: kept.local.schema.field(source).type for source, name in reads}

    def _types_in_files(self, scan: Scan) -> Types | None:
        snapshot = self._plan.pins.get(scan.table)
        if snapshot is None or not self._found_files(snapshot, scan):
            return None
        reads = [(source, name) for source, name in scan.reads if is_fed(snapshot.type(source))]
        types = to_arrow_schema(snapshot.schema(source for source, _ in reads)).types
        return {name: type_ for (_, name), type_ in zip(reads, types, strict=True)}

    def _found_files(self, snapshot: Snapshot, scan: Scan) -> bool:
        """Whether a table is read from its files, which are then at hand."""
        name = held(scan.table, scan.reading)
        if name not in self._files:
            version = self._plan.versions[scan.table].before if scan.reading is Reading.BEFORE else snapshot.version
            self._files[name] = self._resources.duck.files(snapshot, version)
        return bool(self._files[name])

    def _held(self, leaf: Scan | Reference) -> Kept | None:
        return self._kept.get(held(leaf.table, leaf.reading) if isinstance(leaf, Scan) else leaf.step)

    def _is_trivial(self, node: Operator) -> bool:
        """Whether Spark reads a node as easily as what it is made of: renamed rows, and files row by row."""
        while isinstance(node, Project):
            node = node.input
        if isinstance(node, Scan | Reference):
            return True
        while isinstance(node, Project | Filter):
            node = node.input
        return isinstance(node, Scan) and self._is_far(node)

    def _with_inlined(self, root: Operator) -> Operator:
        if not self._inlined:
            return root

        def put(node: Operator) -> Operator:
            if isinstance(node, Reference) and node.step in self._inlined:
                return exactly(self._inlined[node.step], node.columns)
            return node

        return rewrite(root, put)

    def use(self, name: str, kept: Kept) -> None:
        """What leaves of this name are from now on."""
        self._kept[name] = kept

    def _is_far(self, leaf: Operator) -> bool:
        """Whether a leaf has to be read, rather than being at hand."""
        if isinstance(leaf, Scan | Reference):
            kept = self._held(leaf)
            return kept is None or kept.local is None
        return isinstance(leaf, Opaque)

    # Spark

    def _at_once(
        self, tasks: Mapping[str, Callable[[], T]], needs: Mapping[str, Collection[str]] = MappingProxyType({})
    ) -> dict[str, T]:
        """Runs tasks on all cores, each after those it needs, which stand before it. Raises what the first raised."""
        running: dict[str, Future[T]] = {}

        def run(name: str) -> T:
            for other in needs.get(name, ()):
                running[other].result()
            self._resources.session.sparkContext.setJobGroup(self._refresh_id, self._plan.stream_table.name)
            return tasks[name]()

        # In this order none waits for one that has not begun, however few workers there are.
        for name in tasks:
            running[name] = self._resources.workers.submit(run, name)
        wait(running.values())
        return {name: future.result() for name, future in running.items()}

    def keep(self, frame: DataFrame, step: str, *, is_large: bool = False) -> Kept:
        """The frame evaluated, and a note of whether it was large, which is more than a guess the next time."""
        place = self._plan.stream_table.id, step
        kept = self._workspace.keep(frame, step, is_large=is_large or place in self._resources.large)
        if self._workspace.is_few(kept.rows):
            self._resources.large.discard(place)
        else:
            self._resources.large.add(place)
        return kept

    def frame(self, node: Operator) -> DataFrame:
        return self._workspace.sql(self._text(node))

    def _text(self, node: Operator) -> str:
        return template(node).filled(PinnedLeaves(self._plan.versions, self._view))

    def _view(self, name: str) -> str | None:
        """The view in which Spark finds what is held under a name; None where it reads the Delta table itself."""
        if name in self._kept:
            return self._kept[name].view
        snapshot = self._snapshot(name)
        if snapshot and not is_light(snapshot):
            return self._resources.files.view(snapshot)
        return self._feeds.get(name)

    def _read_small(self, program: Program) -> None:
        """Reads each small table once, whole, in the columns this program uses; where it must, as it was before too."""
        columns: dict[tuple[str, Reading], dict[str, None]] = {}
        for step in program.steps:
            for node in walk(step.operator):
                for table, reading, names in self._readings(node):
                    columns.setdefault((table, reading), {}).update(dict.fromkeys(names))
        for number, ((table, reading), names) in enumerate(columns.items(), start=1):
            snapshot = self._snapshot(table)
            if snapshot is None or not is_light(snapshot):
                continue
            if reading is Reading.AFTER:
                rows = read(snapshot, list(names))
            else:
                rows = read_earlier(snapshot, self._plan.versions[table].before, list(names))
            if rows is not None:  # else Spark will find the history gone, and say so
                schema = snapshot.schema(rows.column_names)
                self.use(held(table, reading), self._workspace.keep_local(rows, schema, f"source_{number}"))

    def _readings(self, node: Operator) -> Iterator[tuple[str, Reading, Iterable[str]]]:
        """What a node reads: table, moment, columns. An opaque query may read any column of its sources."""
        if isinstance(node, Scan) and node.reading is not Reading.DELTA:
            yield node.table, node.reading, (source for source, _ in node.reads)
        if isinstance(node, Opaque):
            for table in sorted(node.sources):
                reading = Reading.BEFORE if table in node.before else Reading.AFTER
                yield table, reading, self._plan.pins[table].fields

    def _snapshot(self, table: str) -> Snapshot | None:
        return self._plan.stored if table == STORED else self._plan.pins.get(table)


def _needs(steps: Iterable[Step]) -> dict[str, set[str]]:
    """Step → those of the steps that it refers to."""
    known: dict[str, set[str]] = {}
    for step in steps:
        read = {node.step for node in walk(step.operator) if isinstance(node, Reference)}
        known[step.name] = read & known.keys()
    return known
