"""Started by the tests in a process of its own: a session, a Delta table, one line on standard output."""

import sys
from pathlib import Path

import trickle.engine.java
from trickle.engine.session import start_session

warehouse, *options = sys.argv[1:]
if "without-installed-java" in options:
    trickle.engine.java.JVM_DIRECTORIES = ()
spark = start_session(Path(warehouse))
spark.sql("CREATE TABLE numbers (n BIGINT)")
spark.sql("INSERT INTO numbers VALUES (1), (2), (3)")
total = spark.sql("SELECT sum(n) AS total FROM numbers").toArrow()["total"][0].as_py()
system = spark.sparkContext._jvm.java.lang.System
print(total, system.getProperty("java.specification.version"), system.getProperty("java.home"))
spark.stop()
