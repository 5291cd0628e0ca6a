"""Duck: rows found, joined and counted in the driver by DuckDB, where that takes less than Spark's planning alone.

It passes values on, compares them, and computes nothing else: the rows of a large table that match keys at hand, the
equal rows of a change feed summed up, and plain trees over rows at hand. Values of the types it is given are equal here
exactly where they are equal in Spark; everything else, and what DuckDB stumbles over, Spark does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from threading import Timer
from typing import TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from sqlglot import exp

from trickle.algebra.expressions import substitute
from trickle.algebra.operator import Operator
from trickle.engine.machine import cores
from trickle.names import HIDDEN, OP, WEIGHT
from trickle.store.delta_log import Snapshot
from trickle.store.feed_files import CHANGE_TYPE
from trickle.store.files import GONE_FILE, GONE_PLACE, DataFiles, at_version, data_files
from trickle.store.leaves import Template, placed
from trickle.store.types import is_compared, is_filed

# What DuckDB 2.0 recommends instead plans every statement twice, which takes longer than to copy the few rows found.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)

MOST_ROWS = 1_000_000
"""More rows are not fetched: they would fill the driver, and computing with them is work enough for Spark."""

NEAR_BYTES = 64 * 1024 * 1024
"""A table up to this size is searched here even where a cluster could share the work."""

WHOLE_BYTES = 256 * 1024 * 1024
"""A table up to this size is read whole where Spark would read it with the same cores."""

_MOST_FILES = 4096
"""The footer of every file is read first, 0.15 ms each; Spark lists and plans them for longer than that."""

_REMEMBERED = 10_000
"""Of so many trees at most it is known that they are Spark's: tables come and go."""

_PAIRED = 4
"""Of so many columns pairs are looked at, too: keys stand in front."""

_LONGEST = 30.0
"""Seconds after which a query is given up: it compares every row with every other, and Spark may know better."""

Leaf: TypeAlias = "pa.Table | DataFiles"
"""Rows at hand, or the Parquet files of a table."""

FILE, PLACE = HIDDEN + "file", HIDDEN + "place"
"""Where a row is: the number of its file among those of the table, and its place in the file."""

QUOTIENT = "trickle_quotient"
"""The macro that divides whole numbers: n · shift / d, rounded, a half away from zero. A large divisor is an error."""

_DIVIDING = f"""CREATE MACRO {QUOTIENT}(n, d, shift, bound) AS
    CASE WHEN n IS NULL OR d IS NULL THEN NULL
         WHEN d = 0 OR abs(d) >= bound THEN error('Spark divides by it')
         ELSE (CASE WHEN (n < 0) <> (d < 0) THEN -1 ELSE 1 END)
              * ((abs(n) // abs(d)) * shift + (2 * (abs(n) % abs(d)) * shift + abs(d)) // (2 * abs(d))) END"""

CHECKED_SUM = "trickle_sum"
"""The macro that adds numbers below a bound, of which no sum can overflow in Spark; a larger one is an error."""

_ADDING = f"""CREATE MACRO {CHECKED_SUM}(x, bound) AS
    CASE WHEN max(abs(x)) >= bound THEN error('Spark adds it') ELSE sum(x) END"""

_ARRIVALS = "('insert', 'update_postimage')"


Reads = Sequence[tuple[str, str]]
"""(column of a table, its name here)"""


@dataclass(frozen=True)
class Keys:
    """Wanted values, those of one row together: (column of the table, name of the values)."""

    pairs: tuple[tuple[str, str], ...]
    values: pa.Table
    null_safe: bool

    def compared(self, reads: Reads) -> list[str]:
        """The columns that are compared, by their names in the files."""
        sources = {name: source for source, name in reads}
        return [sources[column] for column, _ in self.pairs]


_STRETCH = 2048
"""Rows of a file that are looked at together, as DuckDB does."""


@dataclass(frozen=True)
class Sampled:
    """What some rows of a table come to; deleted ones may be among them."""

    rows: int
    groups: int


@dataclass
class Duck:
    """The one database of a session, which holds no data of its own."""

    is_local: bool
    """Whether Spark computes on this machine too, so that nobody could read faster."""

    def __post_init__(self) -> None:
        # It fetches no extensions, and writes to no disk: what does not fit is Spark's.
        self._database = duckdb.connect(
            config={
                "threads": cores(),
                "memory_limit": "1GB",
                "temp_directory": "",
                "autoinstall_known_extensions": False,
                "enable_external_file_cache": False,  # it would remember every file there ever was
                # Ahead it reads whole column chunks into memory that is given back at once, and pays for every page
                # of it again: searches took up to twice as long, now and then (DuckDB 2.0).
                "disable_parquet_prefetching": True,
            }
        )
        # Nor does it leave out what it can tell from statistics, or turn around: an overflow would go with it.
        self._database.execute("SET disabled_optimizers = 'expression_rewriter,statistics_propagation'")
        # Moments in files of two kinds are the same moments, wherever this machine is.
        self._database.execute("SET GLOBAL TimeZone = 'UTC'")
        self._database.execute(_DIVIDING)
        self._database.execute(_ADDING)
        self._given_up: dict[str, int] = {}
        """Tree over a large table that was too much → how many rows were at hand beside it; half are tried again."""
        self._ambiguous: set[tuple[str, tuple[str, ...]]] = set()
        """Table and columns that did not tell its rows apart."""

    @staticmethod
    def may_hold(rows: int) -> bool:
        return rows <= MOST_ROWS

    def matching(
        self, snapshot: Snapshot, reads: Reads, keys: Keys, condition: exp.Expr | None = None
    ) -> pa.Table | None:
        """The rows of a table that match the keys; None where Spark has to search.

        Those that do not satisfy a condition, one of DuckDB's over the names here, are left out.
        """
        files, schema = self._searched(snapshot, reads, keys), _named(snapshot, reads)
        return self._matching(_in_files(files, reads), keys, condition, schema) if files else None

    def matching_among(
        self, rows: pa.Table, snapshot: Snapshot, reads: Reads, keys: Keys, condition: exp.Expr | None = None
    ) -> pa.Table | None:
        """The same, of a table whose rows that may match are at hand."""
        return self._matching(_among(rows, reads), keys, condition, _named(snapshot, reads))

    def placed(self, snapshot: Snapshot, reads: Reads, keys: Keys) -> pa.Table | None:
        """The rows of a table that match the keys, and where they are (FILE, PLACE); None as above."""
        files = self._searched(snapshot, reads, keys)
        schema = pa.schema([*_WHERE, *_named(snapshot, reads)])
        return self._matching(_in_files(files, reads), keys, None, schema, "f, r, ") if files else None

    def _matching(
        self, rows: _Rows, keys: Keys, condition: exp.Expr | None, schema: pa.Schema, places: str = ""
    ) -> pa.Table | None:
        """What matches; whether it is alive is looked at after that."""
        wanted = {f"k{number}": keys.values.column(key) for number, (_, key) in enumerate(keys.pairs)}
        matches = _matches([rows.columns[column] for column, _ in keys.pairs], wanted, keys.null_safe)
        return self._query(
            f"SELECT {places}{', '.join(rows.columns.values())} FROM {rows.text} AS t SEMI JOIN k ON {matches}"
            f"{rows.living}{_where(condition, rows.columns)}",
            schema,
            k=pa.table(wanted),
            **rows.tables,
        )

    def located(self, snapshot: Snapshot, identity: Sequence[str], changes: pa.Table) -> pa.Table | None:
        """The rows of a table that changes name, what becomes of each (OP), and where they are; None as above."""
        reads, keys = _whole(snapshot), _identified(identity, changes)
        files = self._searched(snapshot, reads, keys)
        return self._located(_in_files(files, reads), snapshot, identity, changes) if files else None

    def located_among(
        self, rows: pa.Table, snapshot: Snapshot, identity: Sequence[str], changes: pa.Table
    ) -> pa.Table | None:
        """The same, among rows that `placed` has found."""
        reads, keys = _whole(snapshot), _identified(identity, changes)
        if not self.may_search(snapshot, reads, keys):
            return None
        return self._located(_among(rows, reads, with_places=True), snapshot, identity, changes)

    def _located(self, rows: _Rows, snapshot: Snapshot, identity: Sequence[str], changes: pa.Table) -> pa.Table | None:
        named = {f"k{number}": changes.column(name) for number, name in enumerate(identity)}
        matches = _matches([rows.columns[name] for name in identity], named, null_safe=True)
        return self._query(
            f"SELECT f, r, {', '.join(rows.columns.values())}, k.op FROM {rows.text} AS t "
            f"JOIN changes AS k ON {matches}{rows.living}",
            pa.schema([*_WHERE, *_named(snapshot, _whole(snapshot)), pa.field(OP, pa.string())]),
            changes=pa.table(named | {"op": changes.column(OP)}),
            **rows.tables,
        )

    def divided(
        self, rows: pa.Table, snapshot: Snapshot, identity: Sequence[str], changes: pa.Table
    ) -> pa.Table | None:
        """All rows of a table, which are at hand, and what becomes of each (OP): nothing, unless changes name it."""
        reads = _whole(snapshot)
        if not self.may_search(snapshot, reads, _identified(identity, changes)):
            return None
        among = _among(rows, reads)
        named = {f"k{number}": changes.column(name) for number, name in enumerate(identity)}
        matches = _matches([among.columns[name] for name in identity], named, null_safe=True)
        return self._query(
            f"SELECT {', '.join(among.columns.values())}, k.op FROM {among.text} AS t "
            f"LEFT JOIN changes AS k ON {matches}",
            pa.schema([*_named(snapshot, reads), pa.field(OP, pa.string())]),
            changes=pa.table(named | {"op": changes.column(OP)}),
            **among.tables,
        )

    def doomed(
        self, snapshot: Snapshot, ids: Sequence[str], going: pa.Table, whole: pa.Table | None = None
    ) -> pa.Table | None:
        """n rows, and where they are, for every row of weight −n that equals them in all its columns; None as above.

        Among all rows of the table, where these are given: then without their places.
        """
        columns = [name for name in going.column_names if name != WEIGHT]
        reads, keys = [(name, name) for name in (*columns, *ids)], _identified(columns, going)
        files = self._searched(snapshot, reads, keys)
        if files is None:
            return None
        rows, places = (_in_files(files, reads), _WHERE) if whole is None else (_among(whole, reads), ())
        named = {f"k{number}": going.column(name) for number, name in enumerate(columns)}
        matches = _matches([rows.columns[name] for name in columns], named, null_safe=True)
        order = ", ".join(f"t.{rows.columns[name]}" for name in ids)
        return self._query(
            f"SELECT {'f, r, ' if places else ''}{', '.join(rows.columns.values())} FROM ("
            f"  SELECT t.*, k.w, row_number() OVER (PARTITION BY k.n ORDER BY {order}) AS nth "
            f"  FROM {rows.text} AS t "
            f"  JOIN (SELECT *, row_number() OVER () AS n FROM going) AS k ON {matches}{rows.living}) "
            "WHERE nth <= -w",
            pa.schema([*places, *_named(snapshot, reads)]),
            going=pa.table(named | {"w": going.column(WEIGHT)}),
            **rows.tables,
        )

    def doomed_by_key(self, snapshot: Snapshot, ids: Sequence[str], going: pa.Table) -> pa.Table | None:
        """The same, found by few columns in which no two of them are equal; None where that does not tell them all.

        As all rows that go are stored, those with their values are theirs if there are just as many. So the other
        columns are not read, which is most of the work.
        """
        whole = _identified([name for name in going.column_names if name != WEIGHT], going)
        files = self._searched(snapshot, _whole(snapshot), whole)
        if files is None:
            return None
        tried = (key for key in _narrow(going) if (snapshot.location, key) not in self._ambiguous)
        key = next((key for key in tried if _is_key(going, key)), None)
        if key is None:
            return None
        reads = [(name, name) for name in (*key, *ids)]
        rows, schema = _in_files(files, reads), _named(snapshot, [(name, name) for name in ids])
        named = {f"k{number}": going.column(name) for number, name in enumerate(key)}
        matches = _matches([rows.columns[name] for name in key], named, null_safe=True)
        found = self._query(
            f"SELECT f, r, {', '.join(rows.columns[name] for name in ids)}, k.n FROM {rows.text} AS t "
            f"JOIN going AS k ON {matches}{rows.living}",
            pa.schema([*_WHERE, *schema, pa.field("n", pa.int64())]),
            going=pa.table(named | {"n": pa.array(np.arange(going.num_rows), pa.int64())}),
            **rows.tables,
        )
        if found is None or not _has_each(found.column("n"), -going.column(WEIGHT).to_numpy()):
            if len(self._ambiguous) >= _REMEMBERED:
                self._ambiguous.clear()
            self._ambiguous.add((snapshot.location, key))
            return None
        contents = going.drop_columns([WEIGHT]).take(found.column("n"))
        for name in found.column_names[:-1]:
            contents = contents.append_column(name, found.column(name))
        return contents

    def summed(
        self, feed: pa.Table, snapshot: Snapshot, columns: Sequence[str], condition: exp.Expr | None = None
    ) -> pa.Table | None:
        """The rows of a change feed with their weights, equal ones together; None where Spark has to do it.

        Those that do not satisfy a condition are left out.
        """
        if not all(is_compared(snapshot.type(name)) for name in columns):
            return None
        weight = f"sum(CASE WHEN {_quoted(CHANGE_TYPE)} IN {_ARRIVALS} THEN 1 ELSE -1 END)::BIGINT"
        listed = f"{_listed(columns)}, {weight}" if columns else weight
        groups = f"GROUP BY {', '.join(map(_quoted, columns))} " if columns else ""
        schema = to_arrow_schema(snapshot.schema(columns)).append(pa.field(WEIGHT, pa.int64()))
        where = _where(condition, {name: name for name in columns})
        text = f"SELECT {listed} AS w FROM feed AS t{where} {groups}HAVING {weight} <> 0"
        return self._query(text, schema, feed=feed)

    def paired(
        self, keys: Sequence[pa.ChunkedArray], weights: pa.ChunkedArray, shown: pa.ChunkedArray
    ) -> pa.Table | None:
        """Of groups with at most one old and one new row per key, what becomes of each row that says it.

        Columns: the place of the row, the operation, whether it shows now, whether it did.
        """
        named = {f"k{number}": values for number, values in enumerate(keys)}
        groups = f"GROUP BY {', '.join(named)} " if named else ""
        rows = pa.table({**named, "w": weights, "shown": shown, "place": pa.array(np.arange(len(weights)), pa.int64())})
        schema = pa.schema({"place": pa.int64(), "op": pa.string(), "is_shown": pa.bool_(), "was_shown": pa.bool_()})
        return self._query(
            "SELECT COALESCE(max(CASE WHEN w > 0 THEN place END), max(place)) AS place, "
            "CASE WHEN max(w) < 0 THEN 'D' WHEN min(w) < 0 THEN 'U' ELSE 'I' END AS op, "
            "COALESCE(bool_or(w > 0 AND shown), false) AS is_shown, "
            "COALESCE(bool_or(w < 0 AND shown), false) AS was_shown "
            f"FROM rows {groups}HAVING count(*) > 0 ORDER BY place",
            schema,
            rows=rows,
        )

    def sampled(
        self, snapshot: Snapshot, reads: Reads, keys: Sequence[str], condition: exp.Expr | None, every: int
    ) -> Sampled | None:
        """The rows that satisfy a condition in one of so many stretches of a table, in groups; None as above."""
        files = data_files(snapshot, _MOST_FILES)
        if files is None:
            return None
        seen = _in_files(files, reads)
        groups = ", ".join(f"t.{seen.columns[key]}" for key in keys)
        stretch = f"(r // {_STRETCH} + (hash(f) % {_STRETCH})::BIGINT) % {every} = 0"
        found = self._query(
            f"SELECT COALESCE(sum(n), 0)::BIGINT AS n, count(*) AS g FROM (SELECT count(*) AS n "
            f"FROM (SELECT * FROM {seen.text} WHERE {stretch}) AS t{_where(condition, seen.columns)} "
            f"GROUP BY {groups})",
            pa.schema({"n": pa.int64(), "g": pa.int64()}),
        )
        return Sampled(found.column("n")[0].as_py(), found.column("g")[0].as_py()) if found is not None else None

    def files(self, snapshot: Snapshot, version: int) -> DataFiles | None:
        """The files of a table that is read whole as soon as Spark would have planned to; None of any other."""
        if snapshot.size_in_bytes > (WHOLE_BYTES if self.is_local else NEAR_BYTES):
            return None
        return data_files(snapshot if version == snapshot.version else at_version(snapshot, version), _MOST_FILES)

    def computed(self, node: Operator, leaf: Callable[[str], Leaf], schema: pa.Schema) -> pa.Table | None:
        """The rows of a plain tree; None where Spark has to compute them."""
        text = _template(node)
        tables = {name: leaf(held) for name, held in text.tables().items()}
        is_large = sum(item.size_in_bytes for item in tables.values() if isinstance(item, DataFiles)) > NEAR_BYTES
        at_hand = sum(item.num_rows for item in tables.values() if isinstance(item, pa.Table))
        too_much = self._given_up.get(node.digest)
        if is_large and too_much is not None and 2 * at_hand >= too_much:
            return None
        found = self._query(f"SELECT {', '.join(map(_quoted, schema.names))} FROM ({text.text}) AS t", schema, **tables)
        if found is None and is_large:
            if len(self._given_up) >= _REMEMBERED:
                self._given_up.clear()
            self._given_up[node.digest] = at_hand
        return found

    def close(self) -> None:
        self._database.close()

    def _query(self, text: str, schema: pa.Schema, **tables: Leaf) -> pa.Table | None:
        """What a query finds, as this schema has it; None where that is too much, or cannot be had."""
        try:
            with self._database.cursor() as cursor:
                for name, table in tables.items():
                    if isinstance(table, pa.Table):
                        cursor.register(name, table)
                        continue
                    if table.gone is not None:
                        cursor.register(f"{name}_gone", table.gone)
                    whole = f"SELECT t.* FROM {_parquet(table)} AS t{_living(table, f'{name}_gone', _PLACES)}"
                    cursor.execute(f"CREATE TEMP VIEW {_quoted(name)} AS {whole}")
                with _interrupting(cursor, _LONGEST):
                    found: pa.Table = cursor.execute(f"{text} LIMIT {MOST_ROWS + 1}").to_arrow_table()
            return found.rename_columns(schema.names).cast(schema) if self.may_hold(found.num_rows) else None
        except (duckdb.Error, pa.ArrowInvalid):  # whatever is wrong with a file, Spark says it better
            return None

    def _searched(self, snapshot: Snapshot, reads: Reads, keys: Keys) -> DataFiles | None:
        """The files to search; None where Spark has to."""
        return data_files(snapshot, _MOST_FILES) if self.may_search(snapshot, reads, keys) else None

    def may_search(self, snapshot: Snapshot, reads: Reads, keys: Keys) -> bool:
        """Whether the files of a table can be searched here, for keys of just the types of its columns."""
        if not (self.is_local or snapshot.size_in_bytes <= NEAR_BYTES):
            return False
        compared = keys.compared(reads)
        types = to_arrow_schema(snapshot.schema(compared)).types
        return (
            all(is_filed(snapshot.type(source)) for source, _ in reads)
            and all(is_compared(snapshot.type(source)) for source in compared)
            and all(
                keys.values.schema.field(key).type == type_ for (_, key), type_ in zip(keys.pairs, types, strict=True)
            )
        )


@contextmanager
def _interrupting(cursor: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    watch = Timer(seconds, cursor.interrupt)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


@lru_cache(maxsize=4_000)
def _template(node: Operator) -> Template:
    """The SQL of a plain tree for DuckDB."""
    return placed(node, lambda query: query.sql(dialect="duckdb"))


def _matches(columns: Sequence[str], wanted: Mapping[str, pa.ChunkedArray], null_safe: bool) -> str:
    """That columns of `t` have the values of `k`. Where none is NULL, DuckDB leaves out more for a plain `=`."""
    equals = ["IS NOT DISTINCT FROM" if null_safe and values.null_count else "=" for values in wanted.values()]
    compared = zip(columns, equals, wanted, strict=True)
    return " AND ".join(f"t.{column} {operator} k.{key}" for column, operator, key in compared) or "true"


def _listed(columns: Sequence[str]) -> str:
    """Columns under names of our own: DuckDB does not tell `a` from `A`."""
    return ", ".join(f"{_quoted(name)} AS c{number}" for number, name in enumerate(columns))


def _where(condition: exp.Expr | None, places: Mapping[str, str]) -> str:
    if condition is None:
        return ""
    columns: dict[str, exp.Expr] = {name: exp.column(place, "t", quoted=True) for name, place in places.items()}
    return f" WHERE {substitute(condition, columns).sql(dialect='duckdb')}"


def _parquet(files: DataFiles) -> str:
    # A directory called `year=2024` is just a directory.
    return f"read_parquet([{', '.join(map(_literal, files.paths))}], hive_partitioning = false)"


_PLACES = "file_index", "file_row_number"
"""Where a row is, by the names that DuckDB has for it."""


@dataclass(frozen=True)
class _Rows:
    """Rows to be looked at: their columns as c0, c1, …, and where each is as f and r."""

    columns: dict[str, str]
    """The name of a column here → c0, c1, …"""
    text: str
    living: str
    """Leaves out rows that are deleted."""
    tables: dict[str, pa.Table]


def _in_files(files: DataFiles, reads: Reads) -> _Rows:
    file, row = _PLACES
    text = f"(SELECT {_listed([source for source, _ in reads])}, {file} AS f, {row} AS r FROM {_parquet(files)})"
    return _Rows(_numbered(reads), text, _living(files), {} if files.gone is None else {"gone": files.gone})


def _among(rows: pa.Table, reads: Reads, *, with_places: bool = False) -> _Rows:
    places = f", {_quoted(FILE)} AS f, {_quoted(PLACE)} AS r" if with_places else ""
    text = f"(SELECT {_listed([source for source, _ in reads])}{places} FROM among)"
    return _Rows(_numbered(reads), text, "", {"among": rows})


def _numbered(reads: Reads) -> dict[str, str]:
    return {name: f"c{number}" for number, (_, name) in enumerate(reads)}


def _narrow(rows: pa.Table) -> Iterator[tuple[str, ...]]:
    """One or two columns that may be a key, first those that are the quickest to search."""
    fields = [field for field in rows.schema if field.name != WEIGHT and not pa.types.is_boolean(field.type)]
    numbers = [field.name for field in fields if pa.types.is_primitive(field.type)]
    texts = [field.name for field in fields if pa.types.is_string(field.type)]
    return chain(combinations(numbers, 1), combinations(numbers[:_PAIRED], 2), combinations(texts, 1))


def _is_key(rows: pa.Table, columns: Sequence[str]) -> bool:
    """Whether no two rows are equal in these columns."""
    places = [f"k{number}" for number in range(len(columns))]  # Arrow takes a dot in a name for a path
    values = rows.select(columns).rename_columns(places)
    return bool(values.group_by(places).aggregate([]).num_rows == rows.num_rows)


def _has_each(numbers: pa.ChunkedArray, times: npt.NDArray[np.int64]) -> bool:
    """Whether 0, 1, … are among the numbers so many times each."""
    return bool((np.bincount(numbers.to_numpy(), minlength=len(times)) == times).all())


def _whole(snapshot: Snapshot) -> Reads:
    return [(name, name) for name in snapshot.fields]


def _identified(identity: Sequence[str], rows: pa.Table) -> Keys:
    """The rows of a table that are those of others in some columns."""
    return Keys(tuple((name, name) for name in identity), rows, null_safe=True)


def _living(files: DataFiles, gone: str = "gone", places: tuple[str, str] = ("f", "r")) -> str:
    """Leaves out rows that are deleted. After a search, so that only what was found is looked up."""
    if files.gone is None:
        return ""
    file, row = places
    name = _quoted(gone)
    return f" ANTI JOIN {name} ON t.{file} = {name}.{_quoted(GONE_FILE)} AND t.{row} = {name}.{_quoted(GONE_PLACE)}"


_WHERE = pa.field(FILE, pa.uint64()), pa.field(PLACE, pa.int64())


def _named(snapshot: Snapshot, reads: Reads) -> pa.Schema:
    """Columns of a table under their names here."""
    fields = to_arrow_schema(snapshot.schema(source for source, _ in reads))
    return pa.schema([field.with_name(name) for field, (_, name) in zip(fields, reads, strict=True)])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
