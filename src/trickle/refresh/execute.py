"""Execute: does what a refresh plan says. Gather, compute, apply in one commit, record."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator, walk
from trickle.algebra.program import Program, Step, StepKind
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Reading, Scan
from trickle.algebra.semi_join import SemiJoin
from trickle.algebra.storage import STORED
from trickle.catalog.model import Action, Measurement, Progress, RefreshRecord
from trickle.engine.machine import cores
from trickle.errors import Reinitialise
from trickle.failpoints import reach
from trickle.names import VISIBLE, WEIGHT, quote
from trickle.refresh.apply import RowCounts, prepare, with_row_ids
from trickle.refresh.choose import Choice
from trickle.refresh.gather import at_hand, narrowed
from trickle.refresh.plan import Programs, RefreshPlan
from trickle.refresh.spark_errors import is_file_missing, is_overflow, no_raw_java, translate
from trickle.refresh.window import SourceWindow
from trickle.store.delta_log import Snapshot
from trickle.store.feeds import Feeds
from trickle.store.files import Files
from trickle.store.leaves import PinnedLeaves, changes, earlier, template
from trickle.store.light import CHANGE_TYPE, is_light, read, read_changes, read_earlier
from trickle.store.logs import DeltaLogs
from trickle.store.table import CommitInfo, StorageTable, StoredCommit
from trickle.store.workspace import Kept, Workspace

T = TypeVar("T")

COMPARE_BYTES = 64 * 1024 * 1024
"""Up to this size a FULL refresh compares with what is stored and writes only the difference."""


INLINED = 3_000
"""Characters of SQL up to which a step over rows at hand is computed wherever it is used: a job costs more than that.

Without a limit plans grow with every step that names another twice, and Spark spends half a minute on reading one.
"""

REWRITE_SHARE = 0.5
"""A FULL refresh whose difference is larger than this share of the stored rows writes everything anew."""


@dataclass(frozen=True)
class Outcome:
    """What a refresh did, and how far the table has come; no progress where it failed."""

    record: RefreshRecord
    progress: Progress
    measured: Measurement | None = None
    """What it took, where that says something about the next one."""


@dataclass
class Executor:
    """Runs refresh plans on a Spark session of trickle's own."""

    session: SparkSession
    logs: DeltaLogs
    programs: Programs
    feeds: Feeds
    files: Files
    large: set[tuple[str, str]] = field(default_factory=set)
    """Stream table and step whose result was too large to be held here the last time."""
    met: set[tuple[str, Action]] = field(default_factory=set)
    """Stream table and way of a refresh that Spark knows by now."""
    workers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(cores(), "trickle-step"))
    """Steps that do not need each other: half of what a small one takes is Spark's planning, on one core."""

    def run(self, plan: RefreshPlan, has_dependents: bool) -> Outcome:
        """Carries a plan out. Raises TrickleError; whatever it raises, nothing is half-written."""
        refresh_id = str(uuid.uuid4())
        self.session.sparkContext.setJobGroup(refresh_id, f"refresh {plan.stream_table.name}")
        with Workspace(self.session, refresh_id) as workspace:
            run = _Run(self, plan, workspace, refresh_id, has_dependents)
            try:
                return run.outcome()
            except PySparkException as error:
                raise translate(error, plan.stream_table.query) from error
            finally:
                self.feeds.trim()
                self.files.trim()

    def jobs(self, refresh_id: str) -> int:
        return len(self.session.sparkContext.statusTracker().getJobIdsForGroup(refresh_id))


def _needs(steps: Iterable[Step]) -> dict[str, set[str]]:
    """Step → those of the steps that it refers to."""
    known: dict[str, set[str]] = {}
    for step in steps:
        read = {node.step for node in walk(step.operator) if isinstance(node, Reference)}
        known[step.name] = read & known.keys()
    return known


class _Run:
    """One refresh under way."""

    def __init__(
        self, executor: Executor, plan: RefreshPlan, workspace: Workspace, refresh_id: str, has_dependents: bool
    ) -> None:
        self._executor = executor
        self._plan = plan
        self._workspace = workspace
        self._refresh_id = refresh_id
        self._has_dependents = has_dependents
        self._started = datetime.now(UTC)
        self._clock = time.perf_counter()
        self._phases: dict[str, float] = {}
        self._table = StorageTable(executor.session, executor.logs, plan.stream_table.location)
        progress = plan.stream_table.progress
        self._sequence = (progress.sequence if progress else 0) + 1
        self._views: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        """View that is computed where it is used → the characters of SQL that this comes to."""
        self._far: set[str] = set()
        """Views of more rows than are held here."""
        self._at_hand: dict[str, pa.Table | Operator] = {}
        """Step → its rows, or what computes them from those of others."""

    def outcome(self) -> Outcome:
        try:
            return self._tried(self._plan.choice)
        except PySparkException as error:
            if self._plan.choice.action is not Action.DIFFERENTIAL:
                raise
            if is_file_missing(error):
                return self._tried(Choice(Action.REINITIALIZE, "files of a source's history were vacuumed"))
            if is_overflow(error):
                return self._tried(Choice(Action.FULL, "arithmetic overflowed while adding to the stored state"))
            if "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE" in str(error):
                return self._tried(
                    Choice(Action.REINITIALIZE, "a source's columns changed in a way its change feed cannot cross")
                )
            raise

    def _tried(self, choice: Choice) -> Outcome:
        with no_raw_java():
            return self._outcome(choice)

    def _outcome(self, choice: Choice) -> Outcome:
        counts, commit = RowCounts(), None
        match choice.action:
            case Action.NO_DATA:
                pass
            case Action.DIFFERENTIAL:
                choice, counts, commit = self._differential(choice)
            case Action.FULL:
                counts, commit = self._full(choice)
            case _:
                counts, commit = self._rebuild(choice)
        return self._finish(choice, counts, commit)

    # The ways of a refresh

    def _differential(self, choice: Choice) -> tuple[Choice, RowCounts, StoredCommit | None]:
        program = self._plan.program
        assert program is not None
        with self._phase("changes"):
            feeds = self._read_feeds(program)
        # A source whose feed the program does not read (a global aggregate is recomputed) may well have moved.
        moved = frozenset(key for key in self._plan.changed if key not in feeds or feeds[key].rows)
        if moved != self._plan.changed:
            # A feed may be empty after all (no-op updates, unused columns): plan again without that source.
            program = self._program(moved) if moved else None
        if program is None:
            reason = "the changes cancel out in the columns the query uses"
            return replace(choice, action=Action.NO_DATA, reason=reason), RowCounts(), None
        with self._phase("gather"):
            change = self._gather(program, feeds)
        counts, commit = self._apply(choice, change)
        return choice, counts, commit

    def _program(self, moved: frozenset[str]) -> Program | None:
        return self._executor.programs.get(self._plan.definition.storage, self._plan.window(moved))

    def _full(self, choice: Choice) -> tuple[RowCounts, StoredCommit | None]:
        """Recompute; write only the difference where that keeps the tables above this one incremental."""
        stored = self._executor.logs.snapshot(self._table.location)
        comparable = not self._plan.definition.incomparable
        if stored is None or not comparable or not (self._has_dependents or stored.size_in_bytes <= COMPARE_BYTES):
            return self._rebuild(choice)
        with self._adaptive():
            with self._phase("compute"):
                change = self._workspace.keep(self._frame(self._plan.definition.storage.replacement()), "difference")
            if change.local is None and change.rows > self._public_rows(filtered=False) * REWRITE_SHARE:
                return self._rebuild(choice)
            return self._apply(choice, change.frame)

    def _rebuild(self, choice: Choice) -> tuple[RowCounts, StoredCommit]:
        storage = self._plan.definition.storage
        frame = self._frame(storage.contents)
        if storage.identity is None:
            frame = with_row_ids(frame, self._sequence)
        deleted = self._public_rows(self._plan.stream_table.filtered)
        with self._phase("commit"), self._adaptive():
            reach("before-data-commit")
            commit = self._table.overwrite(frame, self._commit_info(choice, RowCounts(deleted=deleted)))
            reach("after-data-commit")
        return RowCounts(inserted=self._public_rows(self._plan.definition.filtered), deleted=deleted), commit

    def _apply(self, choice: Choice, change: DataFrame) -> tuple[RowCounts, StoredCommit | None]:
        storage = self._plan.definition.storage
        stored = self._executor.logs.snapshot(self._table.location)
        if stored is None:
            raise Reinitialise("nothing-stored", "the stored rows of this stream table are gone")
        self._table.refuse_overtaken(self._sequence)
        with self._phase("compute"):
            ready = prepare(storage, change, stored, self._workspace, self._sequence)
        if ready is None:
            return RowCounts(), None
        with self._phase("commit"):
            reach("before-data-commit")
            commit = ready.commit(self._table, self._commit_info(choice, ready.counts))
            reach("after-data-commit")
        return ready.counts, commit

    # Gather

    def _read_feeds(self, program: Program) -> dict[str, Kept]:
        """The changes of every source. They may turn out to be none, and then another program is the one to run."""
        feeds = {step.table: step for step in program.steps if step.kind is StepKind.CHANGES}
        return self._at_once({table: partial(self._read_feed, step) for table, step in feeds.items()})

    def _read_feed(self, step: Step) -> Kept:
        window = next(window for window in self._plan.windows if window.key == step.table)
        columns = [name for name in step.operator.columns if name != WEIGHT]
        view = self._read_small_feed(step, window, columns) or self._executor.feeds.view(
            self._plan.versions[step.table], window.rows_changed, columns, self._plan.pins[step.table].fields
        )
        if view:
            self._views[changes(step.table)] = view
        return self._keep(self._frame(step.operator), f"feed_{step.name}")

    def _read_small_feed(self, step: Step, window: SourceWindow, columns: list[str]) -> str | None:
        """The view of a short change feed at hand, where delta-rs can read it."""
        if not self._workspace.is_few(window.rows_changed):
            return None
        rows = read_changes(self._plan.pins[step.table], window.before, columns)
        if rows is None:
            return None
        schema = self._plan.pins[step.table].schema(columns).add(CHANGE_TYPE, "string")
        return self._workspace.keep_local(rows.select(schema.names), schema, f"log_{step.name}").view

    def _gather(self, program: Program, feeds: Mapping[str, Kept]) -> DataFrame:
        """Runs every step but the last, whose result is computed where it is applied."""
        small = self._gather_small(program)
        for step in program.steps[:-1]:
            if step.kind is StepKind.CHANGES:
                self._use(step.name, feeds[step.table])
        others = [step for step in program.steps[:-1] if step.kind is not StepKind.CHANGES]
        self._at_once({step.name: partial(self._run_step, step, small) for step in others}, _needs(others))
        return self._frame(program.result.operator)

    def _run_step(self, step: Step, small: set[str]) -> None:
        """Over rows at hand a short step is computed where it is used, all others once."""
        if step.kind is StepKind.GATHER and step.table not in small:
            self._use(step.name, self._gathered(step))
            return
        text = self._text(step.operator)
        frame = self._workspace.sql(text)
        size = len(text) + sum(text.count(quote(view)) * size for view, size in list(self._sizes.items()))
        if size > INLINED or any(self._is_far(node, small) for node in walk(step.operator)):
            self._use(step.name, self._keep(frame, step.name))
            return
        view = self._workspace.name(frame, step.name)
        self._sizes[view] = size
        self._at_hand[step.name] = step.operator
        self._views[step.name] = view

    def _gathered(self, step: Step) -> Kept:
        """The rows of a large table that match the keys; without keys nothing is read."""
        gather = step.operator
        assert isinstance(gather, SemiJoin)
        values = at_hand(gather, self._at_hand)
        if values is None:
            name = f"{step.name}_keys"
            self._use(name, self._keep(self._frame(gather.keys), name))
            gather = replace(gather, keys=Reference(name, gather.keys.columns))
            values = at_hand(gather, self._at_hand)
        if values is not None:
            if not any(map(len, values.values())):
                schema = self._frame(gather).schema
                return self._workspace.keep_local(to_arrow_schema(schema).empty_table(), schema, step.name)
            gather = narrowed(gather, values)
        return self._keep(self._frame(gather), step.name)

    def _use(self, step: str, kept: Kept) -> None:
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
            self._executor.session.sparkContext.setJobGroup(self._refresh_id, self._plan.stream_table.name)
            return tasks[name]()

        # In this order none waits for one that has not begun, however few workers there are.
        for name in tasks:
            running[name] = self._executor.workers.submit(run, name)
        wait(running.values())
        return {name: future.result() for name, future in running.items()}

    def _is_far(self, node: Operator, small: set[str]) -> bool:
        """Whether a leaf has to be read, rather than being at hand."""
        if isinstance(node, Reference):
            return self._views[node.step] in self._far
        return isinstance(node, Opaque) or (isinstance(node, Scan) and node.table not in small)

    def _keep(self, frame: DataFrame, step: str) -> Kept:
        place = self._plan.stream_table.id, step
        kept = self._workspace.keep(frame, step, is_large=place in self._executor.large)
        if kept.local is None:
            self._far.add(kept.view)
        if self._workspace.is_few(kept.rows):
            self._executor.large.discard(place)
        else:
            self._executor.large.add(place)
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
                view = self._executor.files.view(snapshot) if reading is Reading.AFTER else None
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
        return self._executor.logs.snapshot(self._table.location) if table == STORED else self._plan.pins[table]

    def _frame(self, node: Operator) -> DataFrame:
        return self._workspace.sql(self._text(node))

    def _text(self, node: Operator) -> str:
        return template(node).filled(PinnedLeaves(self._plan.versions, self._views))

    def _public_rows(self, filtered: bool) -> int:
        """How many rows the table shows; Delta answers from its statistics where all of them are shown."""
        if self._executor.logs.version(self._table.location) < 0:
            return 0
        condition = f" WHERE {quote(VISIBLE)}" if filtered else ""
        counted = self._workspace.sql(f"SELECT count(*) AS n FROM delta.{quote(self._table.location)}{condition}")
        return int(counted.collect()[0]["n"])

    # Record

    def _commit_info(self, choice: Choice, counts: RowCounts) -> CommitInfo:
        return CommitInfo(
            stream_table=self._plan.stream_table.id,
            refresh_id=self._refresh_id,
            sequence=self._sequence,
            definition=self._plan.definition.checksum,
            action=choice.action,
            reason=choice.reason,
            frontier=self._plan.frontier,
            shown_frontier=self._plan.shown_frontier,
            data_timestamp=self._plan.as_of,
            rows_inserted=counts.inserted,
            rows_updated=counts.updated,
            rows_deleted=counts.deleted,
        )

    def _finish(self, choice: Choice, counts: RowCounts, commit: StoredCommit | None) -> Outcome:
        earlier = self._plan.stream_table.progress
        record = RefreshRecord(
            refresh_id=self._refresh_id,
            stream_table=self._plan.stream_table.id,
            name=self._plan.stream_table.name,
            action=choice.action,
            reason=choice.reason,
            started_at=self._started,
            seconds=round(time.perf_counter() - self._clock, 4),
            rows_inserted=counts.inserted,
            rows_updated=counts.updated,
            rows_deleted=counts.deleted,
            jobs=self._executor.jobs(self._refresh_id),
            phases={name: round(seconds, 4) for name, seconds in self._phases.items()},
            frontier=self._plan.shown_frontier,
            estimates=choice.estimates,
            sequence=commit.info.sequence if commit else None,
        )
        if commit:
            version, sequence = commit.version, commit.info.sequence
        elif earlier:
            version, sequence = earlier.storage_version, earlier.sequence
        else:
            raise Reinitialise("nothing-stored", "a first load wrote nothing")
        progress = Progress(self._plan.frontier, sequence, version, self._plan.as_of, self._plan.shown_frontier)
        return Outcome(record, progress, self._measured(record))

    def _measured(self, record: RefreshRecord) -> Measurement | None:
        if record.action is Action.NO_DATA:
            return None
        way = Action.DIFFERENTIAL if record.action is Action.DIFFERENTIAL else Action.FULL
        met = self._plan.stream_table.id, way
        is_first = met not in self._executor.met
        self._executor.met.add(met)
        return Measurement(record.action, self._plan.work[way], record.seconds, is_first)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.perf_counter() - started

    @contextmanager
    def _adaptive(self) -> Iterator[None]:
        """Adaptive execution pays for large queries; for small steps it turns every shuffle into a job."""
        conf = self._executor.session.conf
        conf.set("spark.sql.adaptive.enabled", "true")
        try:
            yield
        finally:
            conf.set("spark.sql.adaptive.enabled", "false")
