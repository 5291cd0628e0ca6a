"""Delta logs through Delta itself: on whatever file system Spark can reach."""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from trickle.store.delta_log import Commit, CommitMissing, Snapshot, features_of, fields_of, parse_commit


class SparkLog:
    """Reads Delta logs with the file systems and credentials of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._java_session: Any = spark._jsparkSession

    def _log(self, location: str) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path(location)
        return self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._java_session, path)

    def _newest(self, location: str) -> Any:
        none = self._jvm.scala.Option.empty()
        return self._log(location).update(False, none, none)

    def version(self, location: str) -> int:
        version: int = self._newest(location).version()
        return version

    def snapshot(self, location: str) -> Snapshot | None:
        snapshot = self._newest(location)
        if snapshot.version() < 0:
            return None
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        return Snapshot(
            location=location,
            version=snapshot.version(),
            table_id=metadata["id"],
            fields=fields_of(metadata["schemaString"]),
            properties=metadata.get("configuration", {}),
            features=features_of(json.loads(snapshot.protocol().json())["protocol"]),
            size_in_bytes=snapshot.sizeInBytes(),
        )

    def commit(self, location: str, version: int) -> Commit:
        log_path = self._log(location).logPath()
        path = self._jvm.org.apache.hadoop.fs.Path(log_path, f"{version:020d}.json")
        files = log_path.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())
        try:
            stream = files.open(path)
        except Py4JJavaError as error:
            if "FileNotFound" in error.java_exception.getClass().getName():
                raise CommitMissing(version) from None
            raise
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return parse_commit(version, text)
