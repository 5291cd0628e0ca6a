"""Tables as the store sees them, and rows to compare."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from pyspark.sql import SparkSession

from trickle.store.delta_log import Snapshot
from trickle.store.logs import DeltaLogs


def snapshot_of(spark: SparkSession, location: str) -> Snapshot:
    found = DeltaLogs(spark).snapshot(location)
    assert found
    return found


def multiset(rows: pa.Table | None) -> Counter[str]:
    """Rows by their values as they print: NaN is NaN, and −0.0 is not 0.0."""
    assert rows is not None
    return Counter(repr(tuple(row.values())) for row in rows.to_pylist())
