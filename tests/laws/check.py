"""Check: a case run through the stored path and the pure delta path, and held against its laws.

After every change the stream table holds what the query's own text returns. Taking a change back restores the stored
rows exactly, hidden ones too, and so does a leap back over many changes; a leap forward leaves what single steps left.
The rows of a query are those where a condition holds, fails or is NULL, each kept as a stream table of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import duckdb
import sqlglot
from sqlglot import exp

from laws.data import SCHEMA, Row
from laws.duck import Maintained
from laws.generate import Case
from laws.history import History
from laws.tally import Tally
from trickle.algebra.storage import Compared, Storage
from trickle.algebra.technique import recomputed
from trickle.dialect import SparkSql
from trickle.sql.scope import NotModelled

_UNDO_EVERY = 4
_PARTITIONED_CHANGES = 6


class Invalid(Exception):
    """DuckDB itself does not accept the query or breaks down over it: nothing is known about our rules."""


@dataclass(frozen=True)
class Failure:
    """Where a case went wrong, and how."""

    cycle: int
    technique: str
    reason: str
    extra: dict[Row, int] = field(default_factory=dict)
    missing: dict[Row, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What went wrong, without the names in it."""
        return self.reason.partition(":")[0]


class _Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def check(history: History, case: Case, tally: Tally | None = None) -> Failure | None:
    """The first failure of a case, or None. Raises Invalid where the query's own text cannot be run.

    A query without a tree is counted, and nothing more is known about it.
    """
    run = _Run(history, case, tally or Tally())
    try:
        run.all_laws()
    except _Failed as found:
        return found.failure
    except NotModelled as error:
        run.tally.not_modelled[error.reason] += 1
    except Invalid:
        raise
    except (duckdb.InternalException, duckdb.FatalException) as error:
        raise Invalid(str(error)) from error
    except Exception as error:
        return Failure(run.cycle, run.technique, f"{type(error).__name__}: {error}")
    return None


class _Run:
    """One case on its way: which change it is at, and which stream tables follow it."""

    def __init__(self, history: History, case: Case, tally: Tally) -> None:
        self.tally = tally
        self.cycle = 0
        self.technique = "build"
        self._history = history
        self._case = case
        self._sources = _sources(case.query)
        self._maintained: dict[str, Maintained] = {}
        history.forget()
        history.record(self._sources, case.tables, case.changes)

    def all_laws(self) -> None:
        self.tally.meet(self._case.query)
        wanted = self._own_answer()
        self._maintained = self._load()
        self._compare(wanted)
        undone = 1 if len(self._case.changes) < _UNDO_EVERY else _UNDO_EVERY
        for cycle in range(1, len(self._case.changes) + 1):
            before = self._stored()
            self._move(cycle - 1, cycle)
            previous, wanted = wanted, self._own_answer()
            self.tally.effective += (wanted != previous) * self._refresh(cycle - 1, cycle)
            self._compare(wanted)
            if cycle % undone == 0:
                self._there_and_back(cycle - 1, cycle, before, "undone")
        for technique, table in self._each():
            self._expect(technique, "the hidden columns differ", table.stored, table.contents())
        if self._case.leap:
            self._leap()
        if self._case.partition:
            self._partition()

    def _load(self) -> dict[str, Maintained]:
        """The query as it would be stored, and again as plain rows, where there is nothing stored to lean on."""
        tree = self._history.tree(self._case.query)
        self.tally.recomputed.update(recomputed(tree)[:1])
        storage = self._history.plan(tree)
        result = {storage.technique: self._history.load(storage)}
        if storage.reads_stored and not isinstance(storage, Compared):
            rows = Storage(tree.columns, tree)
            result[rows.technique] = self._history.load(rows)
        return result

    # Laws

    def _there_and_back(self, old: int, new: int, before: list[Counter[Row]], word: str) -> None:
        """From `new` back to `old`, where the stored rows were `before`, and forth again."""
        after = self._stored()
        for start, end, expected in ((new, old, before), (old, new, after)):
            self._move(start, end)
            self.tally.effective += (before != after) * self._refresh(start, end)
            for (technique, table), rows in zip(self._each(), expected, strict=True):
                self._expect(technique, f"a change {word} leaves other rows", table.stored, rows)
        self.tally.laws[word] += 1

    def _leap(self) -> None:
        """All changes at once, backwards and forwards, against what they were one by one."""
        last = len(self._case.changes)
        self._move(0, 0)
        start = [table.contents() for table in self._maintained.values()]
        self._there_and_back(0, last, start, "leapt over")

    def _partition(self) -> None:
        """Q = Q where p + Q where not p + Q where p is null."""
        self._move(0, 0)
        condition = self._case.partition
        tests = (condition, f"NOT ({condition})", f"({condition}) IS NULL")
        shown = ", ".join(sqlglot.parse_one(self._case.query, dialect=SparkSql).named_selects)
        queries = [f"SELECT {shown} FROM ({self._case.query}) AS whole WHERE {test}" for test in tests]
        parts = [
            self._history.load(self._history.storage(query), f"part_{place}") for place, query in enumerate(queries)
        ]
        for cycle in range(min(len(self._case.changes), _PARTITIONED_CHANGES) + 1):
            self.cycle = cycle
            if cycle:
                self._move(cycle - 1, cycle)
                for part in parts:
                    self.tally.refreshes += part.refresh(self._changed(cycle - 1, cycle))
            together = sum((part.shown() for part in parts), Counter[Row]())
            self._expect("partition", "the parts are not the whole", together, self._own_answer())
        self.tally.laws["partitioned"] += 1

    # Steps

    def _each(self) -> Iterator[tuple[str, Maintained]]:
        for technique, table in self._maintained.items():
            self.technique = technique
            yield technique, table

    def _stored(self) -> list[Counter[Row]]:
        return [Counter(table.stored) for table in self._maintained.values()]

    def _move(self, old: int, new: int) -> None:
        self.cycle = max(old, new)
        self._history.look(old, new)

    def _changed(self, old: int, new: int) -> frozenset[str]:
        span = self._case.changes[min(old, new) : max(old, new)]
        return frozenset(table for change in span for table in change)

    def _refresh(self, old: int, new: int) -> int:
        """Refreshes all stream tables; how many of them had anything to do."""
        changed = self._changed(old, new)
        ran = 0
        for technique, table in self._each():
            if table.refresh(changed):
                ran += 1
                self.tally.techniques[technique] += 1
        self.tally.refreshes += ran
        return ran

    def _own_answer(self) -> Counter[Row]:
        try:
            return self._history.wanted(self._case.query)
        except duckdb.Error as error:
            raise Invalid(str(error)) from error

    def _compare(self, wanted: Counter[Row]) -> None:
        for technique, table in self._each():
            self._expect(technique, "the result differs", table.shown(), wanted)
        self.tally.laws["recomputed"] += 1

    def _expect(self, technique: str, reason: str, found: Counter[Row], wanted: Counter[Row]) -> None:
        if found != wanted:
            raise _Failed(Failure(self.cycle, technique, reason, dict(found - wanted), dict(wanted - found)))


def _sources(query: str) -> list[str]:
    tree = sqlglot.parse_one(query, dialect=SparkSql)
    return sorted({table.name for table in tree.find_all(exp.Table)} & set(SCHEMA))
