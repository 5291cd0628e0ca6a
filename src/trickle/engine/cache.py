"""Where trickle keeps what it can make again: Spark's jars and the `java` launcher."""

import os
import sys
from pathlib import Path


def cache_directory() -> Path:
    """`$TRICKLE_CACHE`, or `trickle` in the user's cache directory; it may not exist yet."""
    if chosen := os.environ.get("TRICKLE_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "trickle"
    # The XDG standard says to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "trickle"


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write `path` so that a process reading at the same time sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.chmod(mode)
    unfinished.replace(path)
