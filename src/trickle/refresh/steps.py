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
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.program import Program, Step, StepKind
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Reading, Scan
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.storage import STORED
from trickle.engine.machine import cores
from trickle.names import WEIGHT, quote
from trickle.refresh.gather import AtHand, at_hand, narrowed
from trickle.refresh.plan import RefreshPlan
from trickle.store.delta_log import Snapshot
from trickle.store.duck import MOST_ROWS, Duck, Keys
from trickle.store.feeds import Feeds
from trickle.store.files import Files
from trickle.store.leaves import PinnedLeaves, changes, earlier, template
from trickle.store.light import CHANGE_TYPE, is_light, read, read_changes, read_earlier
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
        self._views: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        """View that is computed where it is used → the characters of SQL that this comes to."""
        self._far: set[str] = set()
        """Views of more rows than are held here."""
        self._at_hand: dict[str, pa.Table | Operator] = {}
        """Step → its rows, or what computes them from those of others."""

    def read_feeds(self, program: Program) -> dict[str, Kept]:
        """The changes of every source. They may turn out to be none, and then another program is the one to run."""
        feeds = {step.table: step for step in program.steps if step.kind is StepKind.CHANGES}
        return self._at_once({table: partial(self._read_feed, step) for table, step in feeds.items()})

    def _read_feed(self, step: Step) -> Kept:
        window = next(window for window in self._plan.windows if window.key == step.table)
        source, columns = self._plan.pins[step.table], [name for name in step.operator.columns if name != WEIGHT]
        rows = read_changes(source, window.before, columns) if window.rows_changed <= MOST_ROWS else None
        summed = self._resources.duck.summed(rows, source, columns) if rows is not None else None
        if summed is not None:
            return self._workspace.keep_local(summed, source.schema(columns).add(WEIGHT, LongType()), step.name)
        if rows is not None:
            schema = source.schema(columns).add(CHANGE_TYPE, "string")
            view: str | None = self._workspace.keep_local(rows.select(schema.names), schema, f"log_{step.name}").view
        else:
            versions = self._plan.versions[step.table]
            view = self._resources.feeds.view(versions, window.rows_changed, columns, source.fields)
        if view:
            self._views[changes(step.table)] = view
        return self.keep(self.frame(step.operator), f"feed_{step.name}")

    def gather(self, program: Program, feeds: Mapping[str, Kept]) -> DataFrame:
        """Runs every step but the last, whose result is computed where it is applied."""
        small = self._gather_small(program)
        for step in program.steps[:-1]:
            if step.kind is StepKind.CHANGES:
                self.use(step.name, feeds[step.table])
        others = [step for step in program.steps[:-1] if step.kind is not StepKind.CHANGES]
        self._at_once({step.name: partial(self._run_step, step, small) for step in others}, _needs(others))
        return self.frame(program.result.operator)

    def _run_step(self, step: Step, small: set[str]) -> None:
        """Over rows at hand a short step is computed where it is used, all others once."""
        if step.kind is StepKind.GATHER and step.table not in small:
            self.use(step.name, self._gathered(step))
            return
        text = self._text(step.operator)
        frame = self._workspace.sql(text)
        size = len(text) + sum(text.count(quote(view)) * size for view, size in list(self._sizes.items()))
        if size > INLINED or any(self._is_far(node, small) for node in walk(step.operator)):
            self.use(step.name, self.keep(frame, step.name))
            return
        view = self._workspace.name(frame, step.name)
        self._sizes[view] = size
        self._at_hand[step.name] = step.operator
        self._views[step.name] = view

    def _gathered(self, step: Step) -> Kept:
        """The rows of a large table that match the keys; without keys nothing is read."""
        gather = step.operator
        assert isinstance(gather, SemiJoin)
        keys = at_hand(gather, self._at_hand)
        if keys is None:
            name = f"{step.name}_keys"
            self.use(name, self.keep(self.frame(gather.keys), name))
            gather = replace(gather, keys=Reference(name, gather.keys.columns))
            keys = at_hand(gather, self._at_hand)
        found = self._found(f"{step.name}_found", gather, keys) if keys else None
        if found is None:
            gather = narrowed(gather, keys.values) if keys else gather
            return self.keep(self.frame(gather), step.name)
        if keys and keys.is_exact:
            return found
        self.use(f"{step.name}_found", found)
        gather = replace(gather, input=Reference(f"{step.name}_found", gather.input.columns))
        return self.keep(self.frame(gather), step.name)

    def _found(self, name: str, gather: SemiJoin, keys: AtHand) -> Kept | None:
        """The rows that match keys at hand, where they can be found without Spark."""
        scan = gather.input
        assert isinstance(scan, Scan)
        snapshot = self._snapshot(scan.table)
        if snapshot is None:
            return None
        schema = StructType(
            [
                StructField(name, field.dataType, field.nullable)
                for (_, name), field in zip(
                    scan.reads, snapshot.schema(source for source, _ in scan.reads), strict=True
                )
            ]
        )
        rows: pa.Table | None = to_arrow_schema(schema).empty_table()
        if any(map(len, keys.values.values())):
            wanted = Keys(gather.pairs, keys.values, gather.null_safe)
            rows = self._resources.duck.matching(snapshot, scan.reads, wanted)
        return None if rows is None else self._workspace.keep_local(rows, schema, name)

    def use(self, step: str, kept: Kept) -> None:
        """What a step refers to by this name."""
        self._views[step] = kept.view
        if kept.local is not None:
            self._at_hand[step] = kept.local

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

    def _is_far(self, node: Operator, small: set[str]) -> bool:
        """Whether a leaf has to be read, rather than being at hand."""
        if isinstance(node, Reference):
            return self._views[node.step] in self._far
        return isinstance(node, Opaque) or (isinstance(node, Scan) and node.table not in small)

    def keep(self, frame: DataFrame, step: str, *, is_large: bool = False) -> Kept:
        """The frame evaluated, and a note of whether it was large, which is more than a guess the next time."""
        place = self._plan.stream_table.id, step
        kept = self._workspace.keep(frame, step, is_large=is_large or place in self._resources.large)
        if kept.local is None:
            self._far.add(kept.view)
        if self._workspace.is_few(kept.rows):
            self._resources.large.discard(place)
        else:
            self._resources.large.add(place)
        return kept

    def _gather_small(self, program: Program) -> set[str]:
        """Reads each small table once, whole, in the columns this program uses; where it must, as it was before too.

        Large ones are not read yet, only named.
        """
        columns: dict[tuple[str, Reading], dict[str, None]] = {}
        for step in program.steps:
            for node in walk(step.operator):
                for table, reading, names in self._readings(node):
                    columns.setdefault((table, reading), {}).update(dict.fromkeys(names))
        small: set[str] = set()
        for number, ((table, reading), names) in enumerate(columns.items(), start=1):
            snapshot = self._snapshot(table)
            if snapshot is None:
                continue
            if not is_light(snapshot):
                view = self._resources.files.view(snapshot) if reading is Reading.AFTER else None
                if view:
                    self._views[table] = view
                continue
            if reading is Reading.AFTER:
                rows = read(snapshot, list(names))
                small.add(table)
            else:
                rows = read_earlier(snapshot, self._plan.versions[table].before, list(names))
            if rows is None:
                continue  # Spark will find the history gone, and say so
            view = self._workspace.keep_local(rows, snapshot.schema(rows.column_names), f"source_{number}").view
            self._views[table if reading is Reading.AFTER else earlier(table)] = view
        return small

    def _readings(self, node: Operator) -> Iterator[tuple[str, Reading, Iterable[str]]]:
        """What a node reads: table, moment, columns. An opaque query may read any column of its sources."""
        if isinstance(node, Scan) and node.reading is not Reading.DELTA:
            yield node.table, node.reading, (source for source, _ in node.reads)
        if isinstance(node, Opaque):
            for table in sorted(node.sources):
                reading = Reading.BEFORE if table in node.before else Reading.AFTER
                yield table, reading, self._plan.pins[table].fields

    def _snapshot(self, table: str) -> Snapshot | None:
        return self._plan.stored if table == STORED else self._plan.pins[table]

    def frame(self, node: Operator) -> DataFrame:
        return self._workspace.sql(self._text(node))

    def _text(self, node: Operator) -> str:
        return template(node).filled(PinnedLeaves(self._plan.versions, self._views))


def _needs(steps: Iterable[Step]) -> dict[str, set[str]]:
    """Step → those of the steps that it refers to."""
    known: dict[str, set[str]] = {}
    for step in steps:
        read = {node.step for node in walk(step.operator) if isinstance(node, Reference)}
        known[step.name] = read & known.keys()
    return known
