"""`trickle run` as a user starts it: a process of its own, which can be killed, stopped and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def made(root: Path, *statements: str, catalog: str = "") -> Path:
    """A warehouse, made by a process of its own: the one that tests has a Spark with another warehouse."""
    done = subprocess.run(
        [*_command(root, catalog), "sql", "-"],
        input=";\n".join(statements), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def _command(root: Path, catalog: str) -> list[str]:
    where = ["--catalog", catalog] if catalog else []
    return [sys.executable, "-c", "from trickle.cli.app import main; main()", "--root", str(root), *where]


class RunProcess:
    """One scheduler, its log in a file."""

    def __init__(self, root: Path, log: Path, *options: str, catalog: str = "") -> None:
        self.log = log
        environment = {**os.environ, "TRICKLE_MEMORY": os.environ.get("TRICKLE_MEMORY", "2g")}
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*_command(root, catalog), "run", "--log", "json", *options],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """To the process and to its Spark."""
        os.killpg(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait()

    def end(self, seconds: float) -> int:
        """As an operating system ends it. Returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(seconds)

    def memory(self) -> tuple[int, int]:
        """Bytes of the process itself, and of its Spark."""
        members = {pid: _resident(pid) for pid in _members(self.pid)}
        return members.pop(self.pid, 0), sum(members.values())


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def _members(group: int) -> list[int]:
    found = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True, check=False).stdout.split()
    return [int(pid) for pid in found if Path(f"/proc/{pid}").exists()]


def until(happened: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
