"""Compiler: from the text of a query to a definition: sources, storage, and how sure we are of both.

Spark reads the text first and has the last word on names and types. The tree we build is lowered back to SQL and must
have the schema Spark gave; one that does not is kept as an opaque node and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import sqlglot
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp
from sqlglot.helper import ensure_list

from trickle.algebra.extract import candidates, canonical, with_parts
from trickle.algebra.lower import lower
from trickle.algebra.normalise import normalise
from trickle.algebra.opaque import Opaque, mark_source, with_sources
from trickle.algebra.operator import Operator, walk
from trickle.algebra.project import renamed
from trickle.algebra.state import Settings
from trickle.algebra.storage import Storage, plan_storage
from trickle.dialect import AsWritten, SparkSql
from trickle.errors import InternalError, UserError
from trickle.names import VISIBLE, is_part
from trickle.refresh.definition import MEANING, READING, Definition, KnownStreamTable
from trickle.refresh.determinism import nondeterministic, nondeterministic_view
from trickle.refresh.reading import reads_alike, sql_functions, tables_read
from trickle.refresh.shape import shape
from trickle.refresh.spark_errors import explained
from trickle.refresh.storable import check_columns
from trickle.refresh.wording import may_be_as_written
from trickle.sql.build import build
from trickle.sql.functions import ROWS_FROM_ARGUMENTS
from trickle.sql.relations import alias_columns
from trickle.sql.scope import NotModelled
from trickle.sql.source import SourceTable, SourceView, names_in_two_cases, names_table, place, tables
from trickle.store.leaves import CurrentLeaves, NamedLeaves, ViewedLeaves, delta_table
from trickle.store.logs import DeltaLogs
from trickle.store.shapes import Shapes
from trickle.store.sources import DeltaSource, Lookup, ViewSource, full_name, table_name
from trickle.store.sources import canonical as canonical_name

_READ_OTHERWISE = "Spark reads it otherwise than we do, so it is computed as it was written"

FindPart = Callable[[str], KnownStreamTable | None]
"""The hidden stream table that keeps the inner result of a text, where there is one that may be read."""


class _Planned(NamedTuple):
    """What we made of a query; see the fields of Definition."""

    whole: Operator
    inner: Mapping[Operator, str]
    tree: Operator
    storage: Storage


class Compiler:
    """Compiles definitions against a Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        logs: DeltaLogs,
        shapes: Shapes,
        look_up: Lookup,
        stream_tables: Mapping[str, KnownStreamTable],
        find_part: FindPart,
        database: str,
    ) -> None:
        self._spark = spark
        self._logs = logs
        self._shapes = shapes
        self._look_up = look_up
        self._stream_tables = stream_tables
        self._find_part = find_part
        self._database = database
        self._sources: dict[str, str] = {}
        self._names: dict[str, exp.Table] = {}
        self._parts: dict[str, str] = {}
        self._only_in_parts: frozenset[str] = frozenset()
        self._wanted_parts: list[str] = []
        self._lookups: list[tuple[exp.Table, DeltaSource | ViewSource]] = []
        self._views: dict[str, bool] = {}
        """The text of a view → whether we read it as Spark does."""
        self._shaped: dict[str, str] = {}
        """Key of a source → the view that stands for it."""
        self._schemas: dict[str, StructType] = {}
        """The text of a tree → what Spark says of its columns."""

    def compile(self, name: str, query: str, *, allow_nondeterministic: bool) -> Definition:
        """Raises UserError where Spark rejects the query or its result cannot be stored."""
        self._refuse_command(query)
        analysed = explained(query, lambda: self._spark.sql(query))
        schema = analysed.schema
        check_columns(name, schema)
        parsed = _parse(query)
        self._refuse_other_case(parsed)
        volatile = nondeterministic(name, query, analysed)
        if volatile and not allow_nondeterministic:
            raise volatile
        planned = self._planned(query, parsed, analysed)
        for view, text in self._view_texts().items():
            volatile = volatile or nondeterministic_view(name, view, text)
        if volatile and not allow_nondeterministic:
            raise volatile
        self._refuse_untracked(parsed, analysed)
        written = self._written(query, parsed, schema, planned)
        return self._definition(query, schema, planned, volatile is not None, written)

    def with_other_parts(self, known: Definition) -> Definition:
        """A query compiled before, reading the inner results that are kept now. Raises NotModelled, InternalError."""
        self._sources = {key: location for key, location in known.seen.items() if not is_part(key)}
        self._lookups = list(known.lookups)
        planned = self._with_parts(known.whole, known.inner, known.schema)
        return self._definition(known.query, known.schema, planned, known.volatile, known.written)

    def _definition(
        self, query: str, schema: StructType, planned: _Planned, volatile: bool, written: Opaque | None
    ) -> Definition:
        contents = planned.storage.contents
        fields = self._fields()
        seen = self._sources | self._parts
        sources = {key: location for key, location in seen.items() if key not in self._only_in_parts}
        understood = self._understood(contents)
        return Definition(
            query=query,
            sources=sources,
            seen=seen,
            tree=planned.tree,
            whole=planned.whole,
            inner=planned.inner,
            storage=planned.storage,
            schema=schema,
            storage_schema=self._schema(contents),
            fingerprint=shape(contents, understood, _among(fields, sources), self._view_texts()),
            database=self._database,
            lookups=tuple(self._lookups),
            fields=fields,
            volatile=volatile,
            wanted_parts=tuple(self._wanted_parts),
            written=written,
        )

    def _written(self, query: str, parsed: exp.Query, schema: StructType, planned: _Planned) -> Opaque | None:
        """The query in its author's own words, where it may be recomputed by them."""
        sources, names, lookups = dict(self._sources), dict(self._names), list(self._lookups)
        try:
            storage = planned.storage
            if planned.tree is not planned.whole:
                storage = plan_storage(planned.whole, self._types_of, self._settings())
            if not may_be_as_written(storage, parsed, self._types_of):
                return None
            written = Opaque(
                self._as_written(query, parsed), planned.whole.columns, "it is recomputed as it was written"
            )
            self._confirm(written, schema)
            return written if written.sources <= sources.keys() else None  # the tree does not read everything
        except (NotModelled, InternalError, UserError):
            return None
        finally:
            self._sources, self._names, self._lookups = sources, names, lookups

    def _refuse_command(self, query: str) -> None:
        """Spark runs a command the moment it is given one: only what its grammar calls a query may reach it."""
        with suppress(sqlglot.errors.SqlglotError):
            _must_select(sqlglot.parse_one(query, dialect=SparkSql), query)
        parser: Any = self._spark._jsparkSession.sessionState().sqlParser()
        explained(query, lambda: parser.parseQuery(query))

    def _refuse_other_case(self, parsed: exp.Query) -> None:
        """What Spark tells apart by case alone we take for one."""
        is_sensitive = str(self._spark.conf.get("spark.sql.caseSensitive")).lower() == "true"
        if is_sensitive and (names := names_in_two_cases(parsed)):
            raise UserError(
                "names-by-case",
                f"{' and '.join(names)} are different names only by their case, and one is that of a WITH clause",
                hint="give what the WITH clause defines another name.",
            )

    def _refuse_untracked(self, parsed: exp.Query, analysed: DataFrame) -> None:
        """Spark must read no table that we do not follow, and call nothing that may be redefined."""
        for function in sql_functions(analysed):
            raise UserError(
                "sql-function",
                f"{function}(…) is a SQL function, and a change of it or of what it reads would go unnoticed",
                hint="put its expression into the query, or into a view.",
            )
        texts = [parsed, *(found.query for _, found in self._lookups if isinstance(found, ViewSource))]
        named = {canonical_name(full_name(table, self._database)) for text in texts for table in tables(text)}
        followed = {found.key for _, found in self._lookups if isinstance(found, DeltaSource)}
        for name in tables_read(analysed) - named - followed:
            raise UserError(
                "untracked-source",
                f"for this query Spark reads {name}, which the text does not name; its changes would go unnoticed",
                hint="name the table in FROM, and not inside a function.",
            )

    def _settings(self) -> Settings:
        return Settings(ansi=str(self._spark.conf.get("spark.sql.ansi.enabled")).lower() == "true")

    def _planned(self, query: str, parsed: exp.Query, analysed: DataFrame) -> _Planned:
        """Tree and storage; a query we have no rules for is kept whole, with the reason."""
        schema = analysed.schema
        names = tuple(schema.fieldNames())
        understood = self._reads_by_default() and reads_alike(self._spark, analysed, parsed)
        try:
            if not understood:
                raise NotModelled(_READ_OTHERWISE)
            built = build(parsed, self._resolve, self._types_of, self._kept_whole)
            tree = normalise(renamed(built, dict(zip(built.columns, names, strict=True))))
            self._confirm(tree, schema)
            return self._with_parts(tree, self._inner_results(tree), schema)
        except (NotModelled, InternalError) as problem:
            self._parts, self._only_in_parts, self._wanted_parts = {}, frozenset(), []
            reason = problem.reason if isinstance(problem, NotModelled) else f"we failed to plan it: {problem.message}"
            opaque = Opaque(self._as_written(query, parsed), names, reason)
            try:
                self._confirm(opaque, schema)
                return _Planned(opaque, {}, opaque, plan_storage(opaque, self._types_of, self._settings()))
            except NotModelled as rejection:
                raise UserError(
                    "unsupported-query",
                    "this query can only be computed as a whole, and not with its tables read at a version",
                    detail=f"{reason}; {rejection.reason}",
                    hint="call columns by the table's alias, without its database.",
                    sql=query,
                ) from rejection

    def _reads_by_default(self) -> bool:
        return all(str(self._spark.conf.get(key)) == self._default(key) for key in READING)

    def _confirm(self, tree: Operator, schema: StructType) -> None:
        """Spark must see the same columns in our tree as in the user's text."""
        types = self._types_of(tree)
        expected = {field.name: field.dataType.simpleString() for field in schema}
        if types != expected:
            differing = [name for name, kind in expected.items() if types.get(name) != kind]
            raise NotModelled(f"Spark reads {', '.join(differing)} differently in our tree than in the query")

    def _inner_results(self, tree: Operator) -> dict[Operator, str]:
        """The inner results worth keeping, and the texts by which they are known."""
        return {
            node: canonical(node, NamedLeaves(self._names)).sql(dialect=SparkSql)
            for node in candidates(tree, self._types_of, self._settings())
        }

    def _with_parts(self, whole: Operator, inner: Mapping[Operator, str], schema: StructType) -> _Planned:
        """Reads inner results where they are kept; those that are not are noted."""
        kept: dict[Operator, Operator] = {}
        for node, text in inner.items():
            part = self._find_part(text)
            if part is None:
                self._wanted_parts.append(text)
            else:
                self._parts[part.key] = part.location
                kept[node] = part.reading(node.columns, f"{part.key}_visible_{len(kept) + 1}")
        tree = with_parts(whole, kept)
        self._only_in_parts = _scanned(whole) - _scanned(tree)
        if kept:
            self._confirm(tree, schema)
        return _Planned(whole, inner, tree, plan_storage(tree, self._types_of, self._settings()))

    def _resolve(self, table: exp.Table) -> SourceTable | SourceView:
        found = self._source(table)
        if isinstance(found, ViewSource):
            if not self._view(table, found):
                raise NotModelled(f"of the view {table_name(table)}: {_READ_OTHERWISE}")
            return SourceView(found.query, found.columns)
        if isinstance(found, KnownStreamTable):
            return SourceTable(found.key, found.columns, found.filtered)
        snapshot = self._logs.snapshot(found.location)
        if snapshot is None:
            raise UserError("unknown-table", f"there is no Delta table at {found.location}")
        return SourceTable(found.key, tuple(snapshot.fields))

    def _source(self, table: exp.Table) -> KnownStreamTable | DeltaSource | ViewSource:
        known = self._stream_tables.get(_lookup_key(table, self._database))
        if known:
            self._sources[known.key] = known.location
            self._names[known.key] = delta_table(known.location)
            return known
        found = self._look_up(table)
        self._lookups.append((table.copy(), found))
        if isinstance(found, DeltaSource):
            self._sources[found.key] = found.location
            self._names[found.key] = _qualified(table, self._database)
        return found

    def _view(self, table: exp.Table, view: ViewSource) -> bool:
        """Whether we read a view as Spark does. Raises UserError where Spark reads it under other settings."""
        for key in MEANING:
            captured = dict(view.settings).get(key) or self._default(key)
            here = str(self._spark.conf.get(key))
            if captured.lower() != here.lower() and key != "spark.sql.storeAssignmentPolicy":
                name = table_name(table)
                raise UserError(
                    "view-settings",
                    f"the view {name} was made with {key} = {captured}, and here it is {here}",
                    detail="Spark reads a view under the settings it was made with.",
                    hint="make the view again in this session, or put its query into the definition.",
                )
        if view.text not in self._views:
            self._refuse_other_case(view.query)
            analysed = explained(view.text, lambda: self._spark.sql(view.text))
            if [field.dataType.simpleString() for field in analysed.schema] != list(view.types):
                raise UserError(
                    "view-outdated",
                    f"what the view {table_name(table)} reads has other types than when the view was made",
                    detail="Spark casts such columns to the types they had.",
                    hint="make the view again.",
                )
            self._views[view.text] = reads_alike(self._spark, analysed, view.query)
        return self._views[view.text]

    def _default(self, key: str) -> str:
        conf: Any = self._spark._jvm.org.apache.spark.sql.internal.SQLConf()  # type: ignore[union-attr]
        return str(conf.getConfString(key))

    def _marked(self, parsed: exp.Query) -> exp.Query:
        """The query with views inlined and every source marked, so that it can be read at a version."""

        def mark(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Table | exp.Lateral) and isinstance(node.this, exp.Anonymous):
                _refuse_unseen(node.this)
            if not isinstance(node, exp.Table) or not names_table(node):
                return node
            name = exp.to_identifier(node.alias or node.name, quoted=True)
            columns = [exp.to_identifier(item, quoted=True) for item in alias_columns(node)]
            marked = self._marked_table(node, exp.TableAlias(this=name, columns=columns))
            for clause in ("joins", "laterals", "pivots", "sample"):
                if found := node.args.get(clause):
                    items = [item.transform(mark) for item in ensure_list(found)]
                    marked.set(clause, items if isinstance(found, list) else items[0])
            return marked

        marked = parsed.transform(mark)
        assert isinstance(marked, exp.Query)
        return marked

    def _as_written(self, text: str, parsed: exp.Query) -> AsWritten:
        """The same of a text that we do not understand, as far as its tables go: the rest of it stays as it is."""
        pieces: list[exp.Expr] = []
        end = 0
        for call in parsed.find_all(exp.Anonymous):
            if isinstance(call.parent, exp.Table | exp.Lateral):
                _refuse_unseen(call)
        for table in tables(parsed):
            start, after = place(table)
            alias = None if table.alias else exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
            pieces += [exp.Var(this=text[end:start]), self._marked_table(table, alias)]
            end = after
        return AsWritten(expressions=[*pieces, exp.Var(this=f"{text[end:]}\n")])  # it may end in a comment

    def _marked_table(self, table: exp.Table, alias: exp.TableAlias | None) -> exp.Expr:
        """What a name in FROM stands for: a source that is marked, or the query of a view."""
        if table.args.get("version"):
            raise UserError("time-travel", "a definition cannot read a table at a fixed version")
        found = self._source(table)
        if isinstance(found, ViewSource):
            understood = self._view(table, found)
            text = self._marked(found.query.copy()) if understood else self._as_written(found.text, found.query)
            # The names are the view's, by position; the alias outside may rename them once more.
            columns = [exp.to_identifier(name, quoted=True) for name in found.columns]
            inner = exp.Subquery(this=text, alias=exp.TableAlias(this=exp.to_identifier("v"), columns=columns))
            return exp.Subquery(this=exp.select("*").from_(inner), alias=alias)
        if isinstance(found, KnownStreamTable):
            shown = exp.select(*(exp.column(item, quoted=True) for item in found.columns))
            shown = shown.from_(mark_source(found.key, None))
            if found.filtered:
                shown = shown.where(exp.column(VISIBLE, quoted=True))
            return exp.Subquery(this=shown, alias=alias)
        return mark_source(found.key, alias)

    def _kept_whole(self, part: exp.Query) -> tuple[exp.Query, tuple[str, ...]]:
        """A part of the query that has no rules, and the names Spark gives to its columns."""
        marked = self._marked(part)
        with _accepted():
            frame = self._spark.sql(with_sources(marked, self._current_leaves()).sql(dialect=SparkSql))
        return marked, tuple(frame.schema.fieldNames())

    def _types_of(self, node: Operator) -> Mapping[str, str]:
        with _accepted():
            return {field.name: field.dataType.simpleString() for field in self._schema(node)}

    def _schema(self, node: Operator) -> StructType:
        text = lower(node, ViewedLeaves(self._shape)).sql(dialect=SparkSql)
        if text not in self._schemas:
            self._schemas[text] = self._asked(text, node)
        return self._schemas[text]

    def _asked(self, text: str, node: Operator) -> StructType:
        try:
            return self._shapes.schema(text)
        except AnalysisException:  # a table may have more than its columns, like `_metadata`
            return self._spark.sql(lower(node, self._current_leaves()).sql(dialect=SparkSql)).schema

    def _shape(self, source: str) -> str:
        if source not in self._shaped:
            location = (self._sources | self._parts)[source]
            snapshot = self._logs.snapshot(location)
            if snapshot is None:
                raise InternalError("no-table", f"there is no Delta table at {location}")
            self._shaped[source] = self._shapes.view(snapshot)
        return self._shaped[source]

    def _current_leaves(self) -> CurrentLeaves:
        return CurrentLeaves(self._sources | self._parts)

    def _fields(self) -> dict[str, Mapping[str, str]]:
        snapshots = {key: self._logs.snapshot(location) for key, location in (self._sources | self._parts).items()}
        return {key: snapshot.fields for key, snapshot in snapshots.items() if snapshot}

    def _understood(self, contents: Operator) -> str:
        """The query as it was understood, in words that stay the same as long as its meaning does."""
        keys = self._sources | self._parts
        leaves = NamedLeaves({key: exp.Table(this=exp.to_identifier(key, quoted=True)) for key in keys})
        opaque = any(isinstance(node, Opaque) for node in walk(contents))
        query = lower(contents, leaves) if opaque else canonical(contents, leaves)
        return f"{contents.columns}\n{query.sql(dialect=SparkSql)}"

    def _view_texts(self) -> dict[str, str]:
        return {
            table.sql(dialect=SparkSql): found.text for table, found in self._lookups if isinstance(found, ViewSource)
        }


@contextmanager
def _accepted() -> Iterator[None]:
    """Raises NotModelled where Spark rejects what we made of a query that it accepts."""
    try:
        yield
    except AnalysisException as error:  # a ParseException is one too
        raise NotModelled(f"Spark does not accept our tree: {str(error).strip().splitlines()[0]}") from error


def _refuse_unseen(function: exp.Anonymous) -> None:
    """A function in FROM may read tables; only of some do we know that they make rows from their arguments."""
    name = function.name.lower()
    if name not in ROWS_FROM_ARGUMENTS:
        raise UserError(
            "untracked-source",
            f"{name}(…) may read tables, and their changes would go unnoticed",
            hint="name the tables themselves in FROM.",
        )


def _among(fields: Mapping[str, Mapping[str, str]], sources: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
    return {key: columns for key, columns in fields.items() if key in sources}


def _scanned(tree: Operator) -> frozenset[str]:
    return frozenset().union(*(node.sources for node in walk(tree)))


def _qualified(table: exp.Table, database: str) -> exp.Table:
    """The name alone, in words that mean the same in every database."""
    parts = [part.name for part in table.parts]
    identifiers = [exp.to_identifier(part, quoted=True) for part in (parts if len(parts) > 1 else [database, *parts])]
    return exp.Table(**dict(zip(("this", "db", "catalog"), reversed(identifiers), strict=False)))


def _lookup_key(table: exp.Table, database: str) -> str:
    parts = [part.name for part in table.parts if part.name.lower() != "spark_catalog"]
    return lookup_key(*(parts if len(parts) > 1 else [database, *parts]))


def lookup_key(*names: str) -> str:
    """The key under which the compiler looks a stream table up: its database and its name."""
    return "\x1f".join(name.lower() for name in names)


def _parse(query: str) -> exp.Query:
    try:
        parsed = sqlglot.parse_one(query, dialect=SparkSql)
    except sqlglot.errors.SqlglotError as error:
        raise UserError(
            "unreadable-query",
            "trickle's parser does not accept this query, though Spark does",
            detail=str(error).split("\n", maxsplit=1)[0],
            hint="please report it; a view around the unusual part often helps.",
            sql=query,
        ) from error
    return _must_select(parsed, query)


def _must_select(parsed: exp.Expr, query: str) -> exp.Query:
    if not isinstance(parsed, exp.Query):
        raise UserError(
            "not-a-query",
            "a stream table is defined by a SELECT",
            detail=f"the text is a {type(parsed).__name__.upper()} statement.",
            sql=query,
        )
    return parsed
