"""The façade: everything trickle does is a call on `Trickle`; SQL and the command line are thin over it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trickle.catalog.catalog import Catalog
from trickle.catalog.model import Action, Lease, RefreshRecord, Status, StreamTable
from trickle.context import Context
from trickle.declare import Declarations
from trickle.drawing import draw
from trickle.errors import EnvironmentProblem, UserError
from trickle.graph import Graph
from trickle.names import quote
from trickle.refresh.explain import Explanation, explain
from trickle.refresh.refresher import Refresher
from trickle.refresh.spark_errors import explained
from trickle.scheduler.agenda import Agenda
from trickle.scheduler.events import Events
from trickle.scheduler.keeper import LEASE_SECONDS
from trickle.scheduler.metrics import Metrics
from trickle.scheduler.scheduler import LONGEST, Scheduler
from trickle.scheduler.upkeep import KEPT_HOURS, Upkeep
from trickle.snapshot import Snapshot
from trickle.sql import statements as st

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_ROOT = "trickle-data"


@dataclass(frozen=True)
class StreamTableStatus:
    """A stream table at a glance."""

    name: str
    mode: str
    schedule: str | None
    status: str
    """ACTIVE, SUSPENDED, or BLOCKED by a suspended stream table that it reads."""
    lag_seconds: float | None
    """Now minus the moment the contents are known to be as fresh as."""
    next_due: datetime | None
    """When they are older than the schedule allows."""
    last_action: str | None
    last_reason: str | None
    last_rows: int | None
    """Rows of the result that the last refresh inserted, updated or deleted."""
    last_seconds: float | None
    last_predicted: float | None
    """What the last refresh was predicted to take, in seconds."""
    failures: int
    sources: tuple[str, ...]


def connect(
    root: str | Path = DEFAULT_ROOT, *, catalog: str | None = None, spark: SparkSession | None = None
) -> Trickle:
    """A connection to the warehouse in `root`, a directory or a URL that Spark can write to.

    Without `catalog` the catalog is a SQLite file in that directory; without `spark` a local session is started
    when it is first needed.
    """
    place = str(root)
    if "://" in place:
        if catalog is None or spark is None:
            raise UserError(
                "remote-warehouse",
                f"the warehouse {place} is not a local directory",
                hint='pass catalog="postgresql://…" and spark=a session that can write there.',
            )
        return Trickle(Context(place.rstrip("/"), Catalog.open(catalog), spark))
    directory = Path(place).absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem("no-directory", f"{directory} cannot be used", detail=str(error)) from error
    opened = Catalog.open(catalog or f"sqlite:///{directory / 'catalog.db'}")
    return Trickle(Context(str(directory), opened, spark))


class Trickle:
    """A connection: SQL in, stream tables kept, and an account of everything that was done."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refresher = Refresher(context)
        self._declarations = Declarations(context, self._refresher)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the catalog. The Spark session stays: a process has one, and others may use it."""
        self._refresher.close()
        self._context.close()

    @property
    def spark(self) -> SparkSession:
        """The session everything runs on."""
        return self._context.spark

    # Statements

    def sql(self, statement: str) -> DataFrame:
        """Runs one statement, Spark's or ours, and returns its result."""
        parsed = st.parse_statement(statement)
        if parsed is not None:
            return self._frame(self.run(parsed))
        self._context.namespace.learn(statement)
        result = explained(statement, lambda: self.spark.sql(statement))
        self._context.namespace.note(statement)
        return result

    def run(self, statement: st.Statement) -> list[dict[str, Any]]:
        """Runs one of our statements and returns its rows; SHOW and DESCRIBE need no Spark."""
        match statement:
            case st.Create():
                report = self.create_stream_table(
                    statement.name,
                    statement.query,
                    schedule=statement.schedule,
                    mode=statement.mode,
                    comment=statement.comment,
                    replace=statement.replace,
                    if_not_exists=statement.if_not_exists,
                )
                return [report_row(report)] if report else []
            case st.Alter():
                self._alter(statement)
                return []
            case st.Drop():
                dropped = self.drop_stream_table(
                    statement.name, if_exists=statement.if_exists, cascade=statement.cascade
                )
                return [{"dropped": name} for name in dropped]
            case st.Refresh(name=None):
                return [report_row(report) for report in self.refresh()]
            case st.Refresh(name=name, full=full):
                return [report_row(self.refresh(name, full=full))]
            case st.Explain(name=name):
                return [{"explanation": str(self.explain(name))}]
            case st.Show():
                return [status_row(item) for item in self.status()]
            case st.Describe(name=name):
                return self._describe(name)
            case st.History(name=name):
                return [report_row(report) for report in self.history(name)]

    def _alter(self, statement: st.Alter) -> None:
        if statement.suspend:
            self.suspend(statement.name)
        elif statement.resume:
            self.resume(statement.name)
        else:
            self.alter_stream_table(
                statement.name,
                schedule=statement.schedule,
                mode=statement.mode,
                query=statement.query,
                rename_to=statement.rename_to,
            )

    def _frame(self, rows: Sequence[dict[str, Any]]) -> DataFrame:
        if not rows:
            return self.spark.createDataFrame([], "result string")
        columns = list(rows[0])
        kinds = ", ".join(f"{quote(name)} {_column_type([row[name] for row in rows])}" for name in columns)
        return self.spark.createDataFrame([tuple(row[name] for name in columns) for row in rows], kinds)

    # Stream tables

    def create_stream_table(
        self,
        name: str,
        query: str,
        *,
        schedule: str | None = None,
        mode: str = "AUTO",
        comment: str | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
    ) -> RefreshRecord | None:
        """Declares a stream table and loads it. Returns the load's report, None if it existed already."""
        return self._declarations.create(
            name,
            query,
            schedule=schedule,
            mode=mode,
            comment=comment,
            replace_existing=replace,
            if_not_exists=if_not_exists,
        )

    def alter_stream_table(
        self,
        name: str,
        *,
        schedule: str | None = None,
        mode: str | None = None,
        query: str | None = None,
        rename_to: str | None = None,
    ) -> None:
        """Changes what is given and leaves the rest."""
        table = self._declarations.alter(self._context.stream_table(name), schedule=schedule, mode=mode, query=query)
        if rename_to is not None:
            self._declarations.rename(table, rename_to)

    def drop_stream_table(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> list[str]:
        """Drops a stream table, its data and, with `cascade`, those that read it. Returns the names dropped."""
        if if_exists and self._context.find(self._context.canonical_name(name)) is None:
            return []
        return self._declarations.drop(self._context.stream_table(name), cascade=cascade)

    def suspend(self, name: str) -> None:
        """Stops a stream table from being refreshed."""
        self._declarations.suspend(self._context.stream_table(name))

    def resume(self, name: str) -> None:
        self._declarations.resume(self._context.stream_table(name))

    def refresh(self, name: str | None = None, *, full: bool = False) -> Any:
        """Brings a stream table, and those it reads, up to date; without a name, all of them in one tick.

        Returns the report of the named table, or the list of all reports. Raises what stopped a named refresh;
        in a tick a failure is a report like any other.
        """
        if name is None:
            return self._refresher.tick()
        return self._refresher.refresh(self._context.stream_table(name), full=full)

    # Scheduling

    def scheduler(
        self,
        *,
        lease_seconds: float = LEASE_SECONDS,
        limit: float = LONGEST,
        workers: int = 1,
        kept_hours: int = KEPT_HOURS,
    ) -> Scheduler:
        """What keeps stream tables fresh while its `run` lasts; one per catalog at a time, others stand by.

        So many `workers` refresh stream tables at once, where these have nothing to do with each other. A refresh
        that takes more seconds than the `limit` is cancelled. Old versions of stream tables can be read for
        `kept_hours`, and for as long as a stream table that reads them needs them.
        """
        self._refresher.workers = workers
        events = Events(Metrics(self.stream_tables))
        return Scheduler(self._context.catalog, self._refresher, events, lease_seconds, limit, Upkeep(kept_hours))

    def pause(self) -> None:
        """Lets the scheduler, in whatever process, begin nothing more. What is under way ends first."""
        self._context.catalog.pause(True)

    def unpause(self) -> None:
        self._context.catalog.pause(False)

    def lease(self) -> Lease:
        """Who schedules; needs no Spark."""
        return self._context.catalog.lease()

    def clock(self) -> datetime:
        """Now, as the lease sees it: by the clock of the catalog's server."""
        return self._context.catalog.clock()

    # Reading

    def snapshot(self) -> Snapshot:
        """Every stream table as the last finished tick left it, so that they agree with each other."""
        return Snapshot.last(self._context)

    def table(self, name: str) -> DataFrame:
        """The contents of a stream table or of any other table: the public columns."""
        self._context.namespace.learn(name)
        return explained(name, lambda: self.spark.table(name))

    def explain(self, name: str) -> Explanation:
        """How a stream table is kept, and what its next refresh would do."""
        *parts, plan = self._refresher.plans(self._context.stream_table(name))
        return explain(plan, parts)

    # Seeing

    def stream_tables(self) -> list[StreamTable]:
        """Every stream table as declared, by name; needs no Spark."""
        every = self._context.catalog.stream_tables()
        graph = Graph.of(every)
        return [graph.shown(table) for table in every if not table.hidden]

    def locations(self) -> list[str]:
        """Where stream tables are stored, hidden ones too; needs no Spark."""
        return [table.location for table in self._context.catalog.stream_tables()]

    def status(self) -> list[StreamTableStatus]:
        """Every stream table at a glance; needs no Spark."""
        agenda = Agenda(Graph.of(self._context.catalog.stream_tables()), self._context.catalog.last_refreshes())
        return [_status(table, agenda) for table in self.stream_tables()]

    def graph(self, form: str = "tree") -> str:
        """Which stream tables read what: as a `tree`, as `dot` for Graphviz, as `mermaid`; needs no Spark."""
        return draw(Graph.of(self._context.catalog.stream_tables()), form)

    def history(
        self,
        name: str | None = None,
        limit: int | None = None,
        *,
        actions: Collection[Action] = (),
        since: datetime | None = None,
    ) -> list[RefreshRecord]:
        """What every refresh did and why, newest first; needs no Spark. Raises UserError for a name never known."""
        canonical = None if name is None else self._context.canonical_name(name)
        found = self._context.catalog.history(canonical, limit, actions=actions, since=since)
        if name is not None and not found and not self._context.catalog.history(canonical, 1):
            self._context.stream_table(name)
        return found

    def _describe(self, name: str) -> list[dict[str, Any]]:
        declared = self._context.stream_table(name)
        table = next(table for table in self.stream_tables() if table.id == declared.id)
        facts = {
            "name": table.name,
            "query": table.query,
            "mode": table.mode.value,
            "schedule": table.schedule,
            "status": table.status.value,
            "comment": table.comment,
            "columns": ", ".join(table.columns),
            "sources": ", ".join(table.sources),
            "location": table.location,
        }
        return [{"property": key, "value": value} for key, value in facts.items()]


def _status(table: StreamTable, agenda: Agenda) -> StreamTableStatus:
    lag = (datetime.now(UTC) - table.progress.data_timestamp).total_seconds() if table.progress else None
    last, blockers = agenda.last.get(table.id), agenda.blocked_by(table)
    return StreamTableStatus(
        name=table.name,
        mode=table.mode.value,
        schedule=table.schedule,
        status="BLOCKED" if blockers and table.status is Status.ACTIVE else table.status.value,
        lag_seconds=None if lag is None else round(lag, 1),
        next_due=None if blockers or table.status is not Status.ACTIVE else agenda.due_at(table),
        last_action=last.action.value if last else None,
        last_reason=_why(table, blockers) or (last.reason if last else None),
        last_rows=last.rows_inserted + last.rows_updated + last.rows_deleted if last else None,
        last_seconds=last.seconds if last else None,
        last_predicted=last.predicted if last else None,
        failures=table.failures,
        sources=tuple(table.sources),
    )


def _why(table: StreamTable, blockers: list[StreamTable]) -> str | None:
    """Why a stream table is not refreshed."""
    if table.status is Status.SUSPENDED:
        return table.suspended_reason
    return f"it reads {', '.join(item.name for item in blockers)}, which is suspended" if blockers else None


def report_row(report: RefreshRecord) -> dict[str, Any]:
    """A report as one flat row, for tables and files."""
    return {
        "name": report.name,
        "action": report.action.value,
        "reason": report.reason,
        "inserted": report.rows_inserted,
        "updated": report.rows_updated,
        "deleted": report.rows_deleted,
        "seconds": report.seconds,
        "predicted": report.predicted,
        "jobs": report.jobs,
        "held_bytes": report.held_bytes,
        "started_at": report.started_at.isoformat(timespec="seconds"),
        "frontier": ", ".join(f"{key}@{at.version}" for key, at in report.frontier.items()),
    }


def status_row(status: StreamTableStatus) -> dict[str, Any]:
    """A status as one flat row."""
    return {
        "name": status.name,
        "mode": status.mode,
        "schedule": status.schedule,
        "status": status.status,
        "lag_seconds": status.lag_seconds,
        "next_due": status.next_due.isoformat(timespec="seconds") if status.next_due else None,
        "last_action": status.last_action,
        "last_reason": status.last_reason,
        "last_rows": status.last_rows,
        "last_seconds": status.last_seconds,
        "last_predicted": status.last_predicted,
        "failures": status.failures,
    }


def _column_type(values: list[Any]) -> str:
    known = next((value for value in values if value is not None), "")
    if isinstance(known, bool):
        return "boolean"
    return {int: "bigint", float: "double"}.get(type(known), "string")
