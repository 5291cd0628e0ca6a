"""The environment in which a JVM of the embedded Spark is started."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from trickle.engine.java import java_home

# Set for another Spark: with any of them the installed pyspark would start that one, or connect to it.
FOREIGN = ("SPARK_CONF_DIR", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_SUBMIT_ARGS")


@contextmanager
def launch_environment() -> Iterator[None]:
    """Let pyspark launch its own Spark on the Java that trickle chose; restore the environment afterwards.

    Raises JavaNotFound.
    """
    wanted = {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    before = {name: os.environ.get(name) for name in (*wanted, *FOREIGN)}
    for name in FOREIGN:
        os.environ.pop(name, None)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
