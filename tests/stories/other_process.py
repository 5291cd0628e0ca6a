"""A second process on the same warehouse: a trickle of its own with a Spark of its own, driven line by line.

Run as a script it reads one request per line and answers each with one line; `OtherProcess` is the near end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_ANSWER = "answer: "


class OtherProcess:
    """The near end: asks, and waits for the answer only when it is wanted."""

    def __init__(self, warehouse: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(warehouse)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, root: Path, **request: str) -> None:
        """Starts a request: `sql`, `refresh` or `die_at`."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"root": str(root), **request}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The answer to the oldest open request; a process that died answers with its exit code."""
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                found: dict[str, Any] = json.loads(line.removeprefix(_ANSWER))
                return found
        return {"died": self._process.wait()}

    def sql(self, root: Path, statement: str) -> list[Any]:
        self.ask(root, sql=statement)
        found = self.answer()
        assert "rows" in found, found
        return [tuple(row) for row in found["rows"]]

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._process.terminate()
        self._process.wait()


def _serve(warehouse: Path) -> None:
    import trickle
    from trickle.engine.session import start_session
    from trickle.failpoints import VARIABLE

    spark = start_session(warehouse)
    connections: dict[str, trickle.Trickle] = {}
    for line in sys.stdin:
        request = json.loads(line)
        root = request["root"]
        t = connections.setdefault(root, trickle.connect(root, spark=spark))
        try:
            if "die_at" in request:
                os.environ[VARIABLE] = request["die_at"]
                found: dict[str, Any] = {}
            elif "refresh" in request:
                report = t.refresh(request["refresh"])
                found = {"action": report.action.value, "reason": report.reason}
            else:
                found = {"rows": [list(row) for row in t.sql(request["sql"]).collect()]}
        except trickle.TrickleError as error:
            found = {"error": type(error).__name__, "code": error.code, "text": str(error)}
        print(_ANSWER + json.dumps(found, default=str), flush=True)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
