"""The session of the embedded Spark: one JVM on this machine, Delta as the only table format it writes."""

import logging
import os
import re
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from trickle.engine.jars import jar_settings
from trickle.engine.jvm import launch_environment
from trickle.engine.machine import cores, memory_bytes
from trickle.errors import EnvironmentProblem

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
MEMORY = "TRICKLE_MEMORY"
WAREHOUSE = "spark.sql.warehouse.dir"
GIBIBYTE = 1 << 30


class SessionConflict(EnvironmentProblem):
    """This process already runs a Spark that the embedded session cannot share."""

    def __init__(self, message: str) -> None:
        super().__init__("other-session", message, hint="use another process, or pass spark= to trickle.connect.")


def start_session(warehouse: Path) -> SparkSession:
    """A Spark session of this process whose managed tables live under `warehouse`.

    A process has one JVM and a JVM one warehouse: a second call for the same one returns the running session.
    Raises SessionConflict, JarsNotResolved and JavaNotFound.
    """
    settings = session_settings(warehouse)
    _refuse_other_session(settings)
    # PySpark logs every rejected statement with its whole JVM stack trace; we show such errors ourselves.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with launch_environment():
        return SparkSession.builder.config(map={**settings, **jar_settings()}).getOrCreate()


def session_settings(warehouse: Path) -> dict[str, str]:
    """Every setting of the embedded session, the jars excepted."""
    workers = str(cores())
    return {
        # The process
        "spark.app.name": "trickle",
        "spark.master": f"local[{workers}]",  # local[*] would count cores its own way, unlike the line below
        "spark.driver.memory": driver_memory(),
        "spark.driver.host": "127.0.0.1",  # the machine's own name often cannot be looked up on a laptop
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.pyspark.python": sys.executable,  # functions in Python see the same packages as the caller
        "spark.ui.enabled": "false",  # it takes a port and nobody looks at it
        # Silence: a plain start prints nothing
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        # Delta
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.sources.default": "delta",
        "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",  # any can be a source
        "spark.databricks.delta.snapshotPartitions": "1",  # 50 tasks by default, to read a log of a few files
        WAREHOUSE: str(warehouse.absolute()),
        # Speed on one machine
        "spark.sql.shuffle.partitions": workers,  # 200 by default: mostly empty tasks
        "spark.sql.codegen.cache.maxEntries": "2000",  # 100 by default: a busy process recompiles for ever
        "spark.sql.execution.arrow.pyspark.enabled": "true",  # row by row is ten times slower
        "spark.scheduler.mode": "FAIR",  # stream tables refreshed at once share the cores
        # Answers that do not depend on the machine
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.ignoreMissingFiles": "false",  # a lost file is an error, never a smaller result
    }


def driver_memory() -> str:
    """`$TRICKLE_MEMORY`, or half of the memory, from 1 to 16 GiB.

    Spark's driver and workers are one JVM here; the other half is left to Python, Arrow and the file cache.
    """
    if chosen := os.environ.get(MEMORY):
        if not re.fullmatch("[0-9]+[mg]", chosen):
            raise EnvironmentProblem("bad-memory", f"{MEMORY} is {chosen!r}", hint="write it as 512m or 4g.")
        return chosen
    half = memory_bytes() // 2
    return f"{min(max(half, GIBIBYTE), 16 * GIBIBYTE) // (1 << 20)}m"


def _refuse_other_session(settings: dict[str, str]) -> None:
    # The private name is the only way to look without starting: getActiveSession knows only its own thread's.
    running = SparkContext._active_spark_context
    if running is None:
        return
    conf = running.getConf()
    if conf.get("spark.sql.extensions") != settings["spark.sql.extensions"]:
        raise SessionConflict("a Spark session without Delta already runs in this process; stop it first")
    current = str(conf.get(WAREHOUSE)).removeprefix("file:")
    if current != settings[WAREHOUSE]:
        raise SessionConflict(f"the Spark session of this process has its warehouse in {current}")
