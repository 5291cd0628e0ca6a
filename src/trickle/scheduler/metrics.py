"""Metrics: the numbers of a scheduler, for Prometheus to fetch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trickle.catalog.model import Action, RefreshRecord, StreamTable
from trickle.errors import TrickleError

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_TABLE = ("table",)


class Metrics:
    """Counts what happened in this process; lags and states are read from the catalog when somebody asks."""

    def __init__(self, tables: Callable[[], Iterable[StreamTable]]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Tables(tables))
        own = self.registry
        self._refreshes = Counter("trickle_refreshes", "Refreshes by what they did", (*_TABLE, "action"), registry=own)
        self._seconds = Histogram("trickle_refresh_seconds", "How long", _TABLE, buckets=_SECONDS, registry=own)
        self._phases = Counter("trickle_phase_seconds", "Seconds by phase", (*_TABLE, "phase"), registry=own)
        self._rows = Counter("trickle_rows", "Rows of results that changed", (*_TABLE, "change"), registry=own)
        self._jobs = Counter("trickle_spark_jobs", "Spark jobs", _TABLE, registry=own)
        self._errors = Counter("trickle_errors", "Failed refreshes by error code", (*_TABLE, "code"), registry=own)
        self._trouble = Counter("trickle_scheduler_errors", "What kept it from its work", ("code",), registry=own)
        self._leader = Gauge("trickle_scheduler_leader", "1 while this process holds the lease", registry=own)
        self._epoch = Gauge("trickle_scheduler_epoch", "The number of the lease it holds or held", registry=own)
        self._looked = Gauge("trickle_scheduler_last_look_timestamp_seconds", "When it last looked", registry=own)
        self._ticks = Histogram("trickle_tick_seconds", "How long ticks took", buckets=_SECONDS, registry=own)

    def serve(self, address: str, port: int) -> int:
        """Answers GET /metrics from now on. Returns the port, which is a free one where 0 was asked for."""
        server, _ = start_http_server(port, address, self.registry)
        return int(server.server_port)

    def refreshed(self, report: RefreshRecord) -> None:
        table = report.name
        self._refreshes.labels(table, report.action.value).inc()
        if report.action is Action.BLOCKED:
            return
        if report.action in (Action.FAILED, Action.POSTPONED):
            self._errors.labels(table, report.reason.partition(":")[0]).inc()
        self._seconds.labels(table).observe(report.seconds)
        for phase, seconds in report.phases.items():
            self._phases.labels(table, phase).inc(seconds)
        for change, rows in (
            ("inserted", report.rows_inserted),
            ("updated", report.rows_updated),
            ("deleted", report.rows_deleted),
        ):
            self._rows.labels(table, change).inc(rows)
        self._jobs.labels(table).inc(report.jobs)

    def ticked(self, seconds: float) -> None:
        self._ticks.observe(seconds)

    def looked(self) -> None:
        self._looked.set_to_current_time()

    def leads(self, epoch: int) -> None:
        self._leader.set(1)
        self._epoch.set(epoch)

    def stands_by(self) -> None:
        self._leader.set(0)

    def trouble(self, code: str) -> None:
        self._trouble.labels(code).inc()


class _Tables(Collector):
    """Lag and state of every stream table, as the catalog has them now."""

    def __init__(self, tables: Callable[[], Iterable[StreamTable]]) -> None:
        self._tables = tables

    def describe(self) -> Iterable[Metric]:
        return ()  # asked at registration, before there may be a catalog

    def collect(self) -> Iterator[Metric]:
        lag = GaugeMetricFamily("trickle_lag_seconds", "Age of what a stream table shows", labels=_TABLE)
        failures = GaugeMetricFamily("trickle_failures", "Failed refreshes in a row", labels=_TABLE)
        active = GaugeMetricFamily("trickle_active", "0 for a suspended stream table", labels=_TABLE)
        now = datetime.now(UTC)
        try:
            tables = list(self._tables())
        except TrickleError:  # the catalog is away; what this process counted can still be had
            return
        for table in tables:
            if table.progress:
                lag.add_metric([table.name], (now - table.progress.data_timestamp).total_seconds())
            failures.add_metric([table.name], table.failures)
            active.add_metric([table.name], table.status == "ACTIVE")
        yield from (lag, failures, active)
