"""Steps: runs a program up to its last step, which is computed where it is applied.

Small tables are read whole, large ones searched for the keys of the change. A small result goes through the driver and
is at hand from then on, the rest stays with Spark. Steps that do not need each other run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from trickle.algebra.operator import Operator, walk
from trickle.algebra.origin import origins
from trickle.algebra.over import Over
from trickle.algebra.program import Program, Step, StepKind, searched
from trickle.algebra.prune import prune
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Reading
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.storage import STORED
from trickle.algebra.top_k import TopK
from trickle.engine.machine import cores
from trickle.names import WEIGHT
from trickle.refresh.apply import Change
from trickle.refresh.at_hand import AtHand
from trickle.refresh.definition import Definition
from trickle.refresh.gather import narrowed
from trickle.refresh.plan import RefreshPlan
from trickle.refresh.window import SourceWindow
from trickle.store.delta_log import Snapshot
from trickle.store.duck import Duck
from trickle.store.feed_files import CHANGE_TYPE
from trickle.store.feeds import Feeds
from trickle.store.files import Files
from trickle.store.leaves import held, template
from trickle.store.searches import Searches
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
    searches: Searches
    """Shared with the other sessions of a connection."""
    pool: str | None = None
    """The pool of Spark's fair scheduler that jobs go to."""
    large: set[tuple[str, str]] = field(default_factory=set)
    """Stream table and step whose result was too large to be held here the last time."""
    workers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(cores(), "trickle-step"))
    """Half of what a small step takes is Spark's planning, on one core."""

    @property
    def duck(self) -> Duck:
        return self.searches.duck

    def label_jobs(self, refresh_id: str, name: str) -> None:
        """Jobs that this thread starts belong to a refresh."""
        self.session.sparkContext.setJobGroup(refresh_id, name)
        if self.pool:
            self.session.sparkContext.setLocalProperty("spark.scheduler.pool", self.pool)

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


class Steps:
    """The steps of one refresh under way."""

    def __init__(self, resources: Resources, plan: RefreshPlan, workspace: Workspace, refresh_id: str) -> None:
        self._resources = resources
        self._plan = plan
        self._workspace = workspace
        self._refresh_id = refresh_id
        self._at_hand = AtHand(plan, workspace, resources.files, resources.searches)
        self._known: dict[str, Step] = {}
        """The steps of the program under way, by name."""
        self._fed: dict[str, tuple[Step, Kept]] = {}
        """The change feeds that were read, by their tables."""

    def read_feeds(self, program: Program) -> dict[str, Kept]:
        """The changes of every source. They may turn out to be none, and then another program is the one to run."""
        wanted = {step.table: step for step in program.steps if step.kind is StepKind.CHANGES}
        new = {key: step for key, step in wanted.items() if key not in self._fed or not self._fed[key][0].tells(step)}
        if self._fed:
            # Steps of another program: a feed of that name may be in use.
            new = {key: replace(step, name=f"{step.name}_again") for key, step in new.items()}
        read = self._at_once({key: partial(self._read_feed, step) for key, step in new.items()})
        self._fed.update({key: (new[key], feed) for key, feed in read.items()})
        return {key: self._fed[key][1] for key in wanted}

    def _read_feed(self, step: Step) -> Kept:
        window, source, columns = self._window(step), self._plan.pins[step.table], _fed(step)
        rows = self._short_feed(step)
        if rows is None:
            versions = self._plan.versions[step.table]
            shared = self._resources.feeds.view(versions, window.rows_changed, columns, source.fields)
            if shared:
                self._at_hand.feeds[held(step.table, Reading.DELTA)] = shared
            return self.keep(self.frame(step.operator), f"feed_{step.name}")
        here = None
        if step.condition:
            here, _ = self._at_hand.split(step.condition, source, [(name, name) for name in columns])
        summed = self._resources.duck.summed(rows, source, columns, here)
        if summed is not None:
            return self._workspace.keep_local(summed, source.schema(columns).add(WEIGHT, LongType()), step.name)
        schema = source.schema(columns).add(CHANGE_TYPE, StringType())
        self.use(
            held(step.table, Reading.DELTA),
            self._workspace.keep_local(rows.select(schema.names), schema, f"log_{step.name}"),
        )
        return self.keep(self.frame(step.operator), f"feed_{step.name}")

    def _short_feed(self, step: Step) -> pa.Table | None:
        window = self._window(step)
        few = self._resources.duck.may_hold(window.rows_changed)
        return self._resources.feeds.rows(self._plan.pins[step.table], window.before, _fed(step)) if few else None

    def _window(self, step: Step) -> SourceWindow:
        return next(window for window in self._plan.windows if window.key == step.table)

    def gather(self, program: Program, feeds: Mapping[str, Kept]) -> Change:
        """Runs every step but the last, whose result is computed where it is applied, unless it is at hand."""
        self._at_hand.read_small(step.operator for step in program.steps)
        self._known = {step.name: step for step in program.steps}
        for step in program.steps[:-1]:
            if step.kind is StepKind.CHANGES:
                self.use(step.name, feeds[step.table])
        others = [step for step in program.steps[:-1] if step.kind is not StepKind.CHANGES]
        self._at_once({step.name: partial(self._run_step, step) for step in others}, _needs(others))
        return self.change(program.result.operator)

    def contents(self, definition: Definition) -> Kept | DataFrame:
        """All that is to be stored, computed anew: here where tables are not large and nothing in it is Spark's."""
        tree = definition.storage.contents
        if definition.is_transparent:
            # The author's own words may name columns that the tree does without.
            self._at_hand.read_small([tree, definition.recomputed])
            made = self._at_hand.entire(tree)
            if made is not None and made.local is not None and _alike(made.schema, definition.storage_schema):
                rows = made.local.select(definition.storage.columns)
                return self._workspace.keep_local(rows, definition.storage_schema, "contents")
        return self.frame(definition.recomputed)

    def change(self, node: Operator) -> Change:
        """The rows of a tree where they are at hand, otherwise the query that computes them."""
        result = self._at_hand.nearer(node, even_if_trivial=True)
        return self._at_hand[result.step] if isinstance(result, Reference) else self._at_hand.text(result)

    def _run_step(self, step: Step) -> None:
        """Over rows at hand a short step is computed where it is used, all others once."""
        operator = step.operator
        if step.kind is StepKind.GATHER and held(step.table, Reading.AFTER) not in self._at_hand:
            operator = self._gathered(step)
        node = self._at_hand.nearer(operator)
        if isinstance(node, Reference):
            self.use(step.name, self._at_hand[node.step])
        elif any(self._at_hand.is_far(leaf) for leaf in walk(node)) or len(template(node).text) > INLINED:
            self.use(step.name, self.keep(self.frame(node), step.name))
        else:
            self._at_hand.inline(step.name, node)

    def _gathered(self, step: Step) -> Operator:
        """The rows of a large table that match the keys; without keys nothing is read."""
        gather = step.operator
        assert isinstance(gather, SemiJoin)
        wanted = frozenset(key for _, key in gather.pairs)
        keys = self._at_hand.nearer(_pruned(self._at_hand.with_inlined(gather.keys), wanted), even_if_trivial=True)
        if not isinstance(keys, Reference):
            name = f"{step.name}_keys"
            self.use(name, self.keep(self.frame(keys), name))
            keys = Reference(name, keys.columns)
        gather = replace(gather, keys=keys)
        values = self._at_hand[keys.step].local
        wider = partial(self._all_values, step.operator.inputs[1], gather.pairs[0][1])
        found = self._at_hand.matching(gather, values, f"{step.name}_rows", wider) if values is not None else None
        if found is None:
            self.use(
                step.name, self.keep(self.frame(gather if values is None else narrowed(gather, values)), step.name)
            )
            return Reference(step.name, gather.columns)
        return found

    def _all_values(self, keys: Operator, name: str) -> list[pa.Array]:
        """All the values that keys are taken from; none where they are more than rows have changed."""
        found = [values.unique() for values in self._values(keys, name)]
        changed = sum(window.rows_changed for window in self._plan.windows)
        return found if sum(map(len, found)) <= changed else []

    def _values(self, keys: Operator, name: str) -> Iterator[pa.ChunkedArray]:
        """The values that a column of keys is taken from, whichever of them this query looks for."""
        waiting, seen = list(origins(keys, name)), set()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            step, column = self._known[place[0]], place[1]
            if step.kind is StepKind.COMPUTE:
                waiting += origins(step.operator, column)
                continue
            look = self._fed_values if step.kind is StepKind.CHANGES else self._found_values
            values = look(step, column)
            if values is not None:
                yield values

    def _fed_values(self, changes: Step, name: str) -> pa.ChunkedArray | None:
        rows = self._short_feed(changes)
        return rows.column(name) if rows is not None else None

    def _found_values(self, gather: Step, name: str) -> pa.ChunkedArray | None:
        """A column of what was found for all, or else of what was for this query."""
        scan, snapshot = searched(gather.operator), self._plan.pins.get(gather.table)
        assert isinstance(gather.operator, SemiJoin)
        assert scan is not None
        sources = {known: source for source, known in scan.reads}
        compared = sources[gather.operator.pairs[0][0]]
        wide = self._resources.searches.values(snapshot, compared, sources[name]) if snapshot else None
        if wide is not None or gather.name not in self._at_hand:
            return wide
        rows = self._at_hand[gather.name].local
        return rows.column(name) if rows is not None else None

    def read_stored(self, columns: Sequence[str]) -> None:
        """Brings what is stored to hand, where it is little."""
        self._at_hand.read(STORED, Reading.AFTER, columns)

    def placed(self, stored: Snapshot) -> pa.Table | None:
        """The stored rows that were searched for, and where they are, if this is how they are stored."""
        seen = self._plan.stored
        is_same = seen is not None and (seen.version, seen.files) == (stored.version, stored.files)
        return self._at_hand.placed if is_same else None

    def whole(self, stored: Snapshot) -> pa.Table | None:
        """All rows of a small table."""
        return self._at_hand.whole(stored, stored.version)

    def keep_stored(self, before: Snapshot, version: int, rows: pa.Table | None) -> None:
        """Has what was just stored at hand for the next refresh, where it is at all."""
        if rows is not None:
            self._at_hand.put_whole(before, version, rows)

    def use(self, name: str, kept: Kept) -> None:
        """What leaves of this name are from now on."""
        self._at_hand.hold(name, kept)

    def _at_once(
        self, tasks: Mapping[str, Callable[[], T]], needs: Mapping[str, Collection[str]] = MappingProxyType({})
    ) -> dict[str, T]:
        """Runs tasks on all cores, each after those it needs, which stand before it. Raises what the first raised."""
        running: dict[str, Future[T]] = {}

        def run(name: str) -> T:
            for other in needs.get(name, ()):
                running[other].result()
            self._resources.label_jobs(self._refresh_id, self._plan.stream_table.name)
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
        return self._workspace.sql(self._at_hand.text(node))


def _fed(step: Step) -> list[str]:
    """The columns of a source that its changes are read in."""
    return [name for name in step.operator.columns if name != WEIGHT]


def _alike(one: StructType, other: StructType) -> bool:
    """Whether two relations have the same columns, in any order."""
    return {each.name: each.dataType for each in one} == {each.name: each.dataType for each in other}


def _pruned(keys: Operator, wanted: frozenset[str]) -> Operator:
    """The keys alone. Which row comes first among equals depends on all columns, so there they stay."""
    return keys if any(isinstance(node, TopK | Over) for node in walk(keys)) else prune(keys, wanted)


def _needs(steps: Iterable[Step]) -> dict[str, set[str]]:
    """Step → those of the steps that it refers to."""
    known: dict[str, set[str]] = {}
    for step in steps:
        read = {node.step for node in walk(step.operator) if isinstance(node, Reference)}
        known[step.name] = read & known.keys()
    return known
