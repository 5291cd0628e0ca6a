"""Execute: does what a refresh plan says. Gather, compute, apply in one commit, record."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from trickle.algebra.program import Program
from trickle.algebra.reference import Reference
from trickle.algebra.storage import stored
from trickle.catalog.model import Action, Measurement, Mode, Progress, RefreshRecord
from trickle.errors import Reinitialise
from trickle.failpoints import reach
from trickle.names import VISIBLE, quote
from trickle.refresh.apply import Change, RowCounts, Target, as_feed, prepare, shown, stored_whole
from trickle.refresh.choose import Choice, reaching_most
from trickle.refresh.parts import discreet
from trickle.refresh.plan import Programs, RefreshPlan
from trickle.refresh.spark_errors import is_file_missing, is_overflow, no_raw_java, translate
from trickle.refresh.steps import Resources, Steps
from trickle.store.delta_log import Snapshot
from trickle.store.light import is_light
from trickle.store.logs import DeltaLogs
from trickle.store.table import CommitInfo, StorageTable, StoredCommit
from trickle.store.workspace import Kept, Workspace

COMPARE_BYTES = 64 * 1024 * 1024
"""Up to this size a FULL refresh compares with what is stored and writes only the difference."""

REWRITE_SHARE = 0.5
"""A FULL refresh whose difference is larger than this share of all rows writes everything anew."""


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

    logs: DeltaLogs
    programs: Programs
    resources: Resources
    met: set[tuple[str, Action]] = field(default_factory=set)
    """Storage and way of a refresh that Spark knows by now."""
    _running: str | None = None
    """The refresh under way."""

    @property
    def session(self) -> SparkSession:
        return self.resources.session

    def begin(self) -> str:
        """The id of the next refresh; from here on `cancel` is about that one."""
        self._running = str(uuid.uuid4())
        return self._running

    def run(self, plan: RefreshPlan, refresh_id: str, has_dependents: bool) -> Outcome:
        """Carries a plan out. Raises TrickleError; whatever it raises, nothing is half-written."""
        self.resources.label_jobs(refresh_id, f"refresh {plan.stream_table.name}")
        with Workspace(self.session, refresh_id) as workspace:
            run = _Run(self, plan, workspace, refresh_id, has_dependents)
            try:
                return run.outcome()
            except PySparkException as error:
                raise translate(error, plan.stream_table.query) from error
            finally:
                self.resources.trim()

    def cancel(self) -> None:
        """Ends the jobs of the refresh under way, from another thread, and those it would still begin."""
        context: Any = self.session.sparkContext
        if self._running:
            context._jsc.sc().cancelJobGroupAndFutureJobs(self._running)

    def jobs(self, refresh_id: str) -> int:
        return len(self.session.sparkContext.statusTracker().getJobIdsForGroup(refresh_id))


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
        self._steps = Steps(executor.resources, plan, workspace, refresh_id)

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
        self._begin_again()
        with no_raw_java():
            return self._outcome(choice)

    def _begin_again(self) -> None:
        """What another way has read may lack columns that the next one needs."""
        self._steps = Steps(self._executor.resources, self._plan, self._workspace, self._refresh_id)

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
                counts, commit = self._rebuild(choice, self._contents())
        return self._finish(choice, counts, commit)

    # The ways of a refresh

    def _differential(self, choice: Choice) -> tuple[Choice, RowCounts, StoredCommit | None]:
        program = self._plan.program
        assert program is not None
        with self._phase("changes"):
            feeds = self._steps.read_feeds(program)
        far = reaching_most({key: feed.rows for key, feed in feeds.items()}, self._plan.pins)
        if far and self._plan.stream_table.mode is Mode.AUTO:
            self._begin_again()
            choice = discreet(replace(choice, action=Action.FULL, reason=f"{far}: recomputing is cheaper"))
            return choice, *self._full(choice)
        moved = program.moved({key: feed.rows for key, feed in feeds.items()}, self._plan.changed)
        if moved != self._plan.changed:
            # A feed may be empty after all (no-op updates, unused columns): plan again without that source.
            needed = self._program(moved) if moved else None
            if needed is None:
                return replace(choice, action=Action.NO_DATA, reason=_nothing_left(program)), RowCounts(), None
            program = needed
            with self._phase("changes"):
                feeds = self._steps.read_feeds(program)
        with self._phase("gather"):
            change = self._steps.gather(program, feeds)
        counts, commit = self._apply(choice, change)
        return choice, counts, commit

    def _program(self, moved: frozenset[str]) -> Program | None:
        return self._executor.programs.get(self._plan.definition.storage, self._plan.window(moved))

    def _full(self, choice: Choice) -> tuple[RowCounts, StoredCommit | None]:
        """Recompute; write only the difference where that keeps the tables above this one incremental."""
        storage, held = self._plan.definition.storage, self._plan.stored
        comparable = not self._plan.definition.incomparable
        if held is None or not comparable or not (self._has_dependents or held.size_in_bytes <= COMPARE_BYTES):
            return self._rebuild(choice, self._contents())
        with self._phase("compute"), self._adaptive():
            contents = self._contents()
            if not isinstance(contents, Kept):
                contents = self._steps.keep(contents, "contents", is_large=not is_light(held))
            self._steps.use("contents", contents)
            self._steps.read_stored(storage.columns)
            change = self._difference(contents, held)
        if isinstance(change, str):
            return self._apply(choice, change)
        if not Workspace.is_few(change.rows) and change.rows > contents.rows * REWRITE_SHARE:
            return self._rebuild(choice, contents)
        with self._adaptive():
            return self._apply(choice, change)

    def _difference(self, contents: Kept, held: Snapshot) -> Change:
        """From what is stored to all that there should be; of two small tables left to whoever applies it."""
        storage = self._plan.definition.storage
        tree = storage.difference(Reference("contents", storage.columns), stored(storage.columns))
        if contents.local is not None:
            change = self._steps.change(tree)
            if isinstance(change, Kept) or is_light(held):
                return change
        return self._steps.keep(self._steps.frame(tree), "difference")

    def _contents(self) -> Kept | DataFrame:
        return self._steps.contents(self._plan.definition)

    def _rebuild(self, choice: Choice, contents: Kept | DataFrame) -> tuple[RowCounts, StoredCommit]:
        whole = stored_whole(self._plan.definition.storage, contents, self._sequence)
        deleted = self._public_rows(self._plan.stream_table.filtered)
        with self._phase("commit"), self._adaptive():
            reach("before-data-commit")
            commit = self._table.overwrite(whole, self._commit_info(choice, RowCounts(deleted=deleted)))
            reach("after-data-commit")
        inserted = shown(whole.local) if whole.local is not None else self._public_rows(self._plan.definition.filtered)
        return RowCounts(inserted=inserted, deleted=deleted), commit

    def _apply(self, choice: Choice, change: Change) -> tuple[RowCounts, StoredCommit | None]:
        held = self._executor.logs.snapshot(self._table.location)
        if held is None:
            raise Reinitialise("nothing-stored", "the stored rows of this stream table are gone")
        self._table.refuse_overtaken(self._sequence)
        with self._phase("compute"):
            placed, whole = self._steps.placed(held), partial(self._steps.whole, held)
            target = Target(self._plan.definition.storage, held, self._sequence, placed, whole)
            ready = prepare(target, change, self._workspace, self._executor.resources.duck)
        if ready is None:
            return RowCounts(), None
        with self._phase("commit"):
            reach("before-data-commit")
            commit = ready.commit(self._table, self._commit_info(choice, ready.counts))
            reach("after-data-commit")
        if commit.version == held.version + 1:
            self._hand_over(held, commit.version, change)
            self._steps.keep_stored(held, commit.version, ready.contents)
        return ready.counts, commit

    def _hand_over(self, before: Snapshot, version: int, change: Change) -> None:
        """A change that is at hand is so for the tables that read this one, too."""
        if self._has_dependents and isinstance(change, Kept) and change.local is not None:
            self._executor.resources.feeds.hand_over(before, version, as_feed(change.local))

    def _public_rows(self, filtered: bool) -> int:
        """How many rows the table shows; where that is all of them, the log mostly says so."""
        stored = self._executor.logs.snapshot(self._table.location)
        if stored is None:
            return 0
        if stored.rows is not None and not filtered:
            return stored.rows
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
            held_bytes=self._workspace.held_bytes,
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
        met = self._plan.definition.storage.digest, way
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


def _nothing_left(program: Program) -> str:
    """Why the change of every source came to nothing."""
    are_filtered = any(step.condition for step in program.steps)
    conditions = ", or its conditions leave them out" if are_filtered else ""
    return f"the changes cancel out in the columns the query uses{conditions}"
