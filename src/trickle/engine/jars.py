"""The Java packages Spark needs: named here once, resolved by Ivy once, loaded from files from then on."""

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname
from xml.sax.saxutils import quoteattr

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from trickle.engine.cache import cache_directory, write_atomically
from trickle.engine.jvm import launch_environment
from trickle.errors import EnvironmentProblem

COORDINATES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.postgresql:postgresql:42.7.14",
)

# Spark brings these in versions of its own, which come first on the class path; leaving them out saves a
# download of 70 MB. The last two hold annotations that only compilers read.
SHIPPED_WITH_SPARK = (
    "com.fasterxml.jackson.core:*",
    "com.github.luben:*",
    "commons-logging:*",
    "commons-pool:*",
    "io.airlift:*",
    "org.apache.hadoop:*",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
    "com.google.code.findbugs:*",
    "org.checkerframework:*",
)

# Without settings of our own Spark 4.1 also asks the spark-packages repository for every parent POM.
# A resolver without a root asks Maven Central; Spark's own variable for a mirror is honoured.
IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true"{root}/>
  </resolvers>
</ivysettings>
"""
MIRROR = "DEFAULT_ARTIFACT_REPOSITORY"

# What Ivy says about a failure, the most telling kind first.
IVY_FAILURES = (
    r"Server access error.*",
    r"Host \S+ not found.*",
    r"\[FAILED *\].*",
    r"unresolved dependency: [^\]\n]*",
    r"Exception in thread .*",
    r".*\bError: .*",
)


class JarsNotResolved(EnvironmentProblem):
    """Spark's packages could not be downloaded."""

    def __init__(self, message: str) -> None:
        super().__init__("no-packages", message, hint="check the network and try again; once resolved they are kept.")


def package_settings(coordinates: Sequence[str] = COORDINATES) -> dict[str, str]:
    """The Spark settings that make Spark itself resolve the packages, as a cluster's session would."""
    return {
        "spark.jars.packages": ",".join(coordinates),
        "spark.jars.excludes": ",".join(SHIPPED_WITH_SPARK),
    }


def jar_settings() -> dict[str, str]:
    """The Spark settings that load the packages from files, resolved first where that has not happened yet.

    Raises JarsNotResolved and JavaNotFound.
    """
    return {"spark.jars": ",".join(jar.as_uri() for jar in jars())}


def jars(coordinates: Sequence[str] = COORDINATES) -> tuple[Path, ...]:
    """The files of the packages and all they depend on.

    Raises JarsNotResolved and JavaNotFound.
    """
    if known := _remembered(coordinates):
        return known
    print("resolving Spark packages (once)…", file=sys.stderr, flush=True)
    resolved = _resolve(coordinates)
    write_atomically(_manifest(coordinates), json.dumps([str(jar) for jar in resolved], indent=2).encode())
    return resolved


def _manifest(coordinates: Sequence[str]) -> Path:
    key = hashlib.sha256(" ".join((*coordinates, *SHIPPED_WITH_SPARK)).encode()).hexdigest()[:12]
    return cache_directory() / "jars" / f"{key}.json"


def _remembered(coordinates: Sequence[str]) -> tuple[Path, ...]:
    """The files found last time, or nothing when one of them has gone."""
    try:
        listed = tuple(Path(jar) for jar in json.loads(_manifest(coordinates).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return ()
    return listed if all(jar.is_file() for jar in listed) else ()


def _resolve(coordinates: Sequence[str]) -> tuple[Path, ...]:
    """Let a JVM without a session do what Spark does with `spark.jars.packages`, then ask what it found."""
    with tempfile.TemporaryDirectory(prefix="trickle-") as temporary:
        ivy_settings = Path(temporary, "ivysettings.xml")
        mirror = os.environ.get(MIRROR)
        ivy_settings.write_text(IVY_SETTINGS.format(root=f" root={quoteattr(mirror)}" if mirror else ""))
        conf = SparkConf(loadDefaults=False)
        conf.setAll([
            *package_settings(coordinates).items(),
            ("spark.jars.ivy", str(cache_directory() / "ivy")),
            ("spark.jars.ivySettings", str(ivy_settings)),
        ])  # fmt: skip
        log = Path(temporary, "log")
        with launch_environment(), log.open("wb") as output:
            try:
                gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
            except PySparkRuntimeError:
                reason = _reason(log.read_text(encoding="utf-8", errors="replace"))
                raise JarsNotResolved(f"Spark's packages could not be resolved: {reason}") from None
        resolved = gateway.jvm.java.lang.System.getProperty("spark.jars")
        gateway.shutdown()
        # The JVM lives until its standard input ends.
        gateway.proc.stdin.close()
        gateway.proc.wait()
    return tuple(Path(url2pathname(urlsplit(jar).path)) for jar in resolved.split(","))


def _reason(log: str) -> str:
    for pattern in IVY_FAILURES:
        if found := re.search(pattern, log):
            return found[0].strip()
    return log.strip().rpartition("\n")[2] or "the JVM ended without a word"
