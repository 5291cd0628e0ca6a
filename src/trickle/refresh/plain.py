"""Plain: the trees of which every engine makes the same.

Joins, unions, filters, different rows, ranks, exact sums: as long as values are passed on, compared with values of
their own type, or computed exactly (exact.py), it is no matter whether Spark or DuckDB does it. Everything else in a
query is Spark's: its functions, its floating point, its integers that may overflow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expand import Expand
from trickle.algebra.expressions import Expression, Output, all_of, column, conjuncts, passing
from trickle.algebra.filter import Filter
from trickle.algebra.full_join import FullJoin
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator, walk
from trickle.algebra.over import Over
from trickle.algebra.project import Project
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Scan
from trickle.algebra.semi_join import SemiJoin, Without
from trickle.algebra.top_k import TopK
from trickle.algebra.union_all import UnionAll
from trickle.dialect import SparkSql
from trickle.refresh import exact
from trickle.store.delta_log import Snapshot
from trickle.store.duck import CHECKED_SUM, QUOTIENT, Reads
from trickle.store.types import is_fed

Types = Mapping[str, pa.DataType]
"""Column → its type, of the columns that can be passed on."""

Leaf = Callable[[Scan | Reference], Types | None]
"""The columns of a leaf; None where its rows are not at hand."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_OF_EVERY_MONTH = re.compile(r"\d{4}-\d{2}-(?:[01]\d|2[0-8])")
_PLAIN_TEXT = re.compile(r"[^\\']*")

_PASSED = (
    pa.types.is_signed_integer,
    pa.types.is_floating,
    pa.types.is_decimal128,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_timestamp,
)

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div)
_CHOICES = (exp.Case, exp.If, exp.Coalesce)
_COMPUTED = (*_ARITHMETIC, *_CHOICES, exp.Neg, exp.Sum, exp.Avg, exp.Cast, exp.Extract, exp.Anonymous)
"""What may have another type in DuckDB than in Spark, and is cast to the one it has there."""

_PARTS_OF_A_DAY = ("YEAR", "MONTH", "DAY")
_ENDS = (None, "UNBOUNDED", "CURRENT ROW")
"""Where a frame begins or ends without counting."""


@dataclass(frozen=True)
class Plain:
    """A plain tree: the types of its columns, and the tree for DuckDB, in which all numbers have the types of Spark."""

    types: Types
    tree: Operator


def plain_nodes(root: Operator, leaf: Leaf) -> Mapping[Operator, Plain]:
    """The nodes of a tree that are plain down to rows at hand."""
    leaves = {node: leaf(node) for node in walk(root) if isinstance(node, Reference | Scan)}
    return _plain_nodes(
        root, tuple((node, tuple(types.items())) for node, types in leaves.items() if types is not None)
    )


@lru_cache(maxsize=4_000)
def _plain_nodes(
    root: Operator, leaves: tuple[tuple[Operator, tuple[tuple[str, pa.DataType], ...]], ...]
) -> Mapping[Operator, Plain]:
    known = {leaf: dict(types) for leaf, types in leaves}
    found: dict[Operator, Plain] = {}
    for node in walk(root):
        tree, below = node, [found[child] for child in node.inputs if child in found]
        types: Types | None
        if isinstance(node, Reference | Scan):
            types = known.get(node)
        elif len(below) == len(node.inputs):
            types = _types(node, [item.types for item in below])
        else:
            types = None
        if types is None or not node.columns or not all(_is_passed(types.get(name)) for name in node.columns):
            continue
        if below:
            tree = _in_duckdb(node.with_inputs(tuple(item.tree for item in below)), _both(item.types for item in below))
        found[node] = Plain({name: types[name] for name in node.columns}, tree)
    return found


def split_condition(condition: Expression, types: Types) -> tuple[Expression | None, Expression | None]:
    """What of a condition every engine finds alike, as DuckDB is to be asked for it, and what Spark has to see to."""
    parts = conjuncts(condition)
    plain = [part for part in parts if _is_condition(part, types)]
    rest = [part for part in parts if part not in plain]
    return all_of(_with_casts(part, types) for part in plain), all_of(rest)


def types_in_table(snapshot: Snapshot, reads: Reads) -> Types:
    """The columns that DuckDB reads from the files of a table as Spark does."""
    fed = [(source, name) for source, name in reads if is_fed(snapshot.type(source))]
    types = to_arrow_schema(snapshot.schema(source for source, _ in fed)).types
    return {name: type_ for (_, name), type_ in zip(fed, types, strict=True)}


def _types(node: Operator, inputs: list[Types]) -> Types | None:
    match node:
        case Project():
            return _outputs(node.outputs, inputs[0])
        case Filter():
            return inputs[0] if _is_condition(node.condition, inputs[0]) else None
        case UnionAll():
            return _united(inputs)
        case Aggregate():
            grouped = _have_equality(node.keys, inputs[0])
            return _outputs((*passing(node.keys), *node.aggregates), inputs[0]) if grouped else None
        case Expand():
            return inputs[0]
        case TopK():
            is_one_order = _have_equality(node.columns, inputs[0]) and _is_order(node.order, inputs[0])
            return inputs[0] if is_one_order else None  # what the query's own order leaves equal is ordered by all
        case Over():
            return _with_windows(node, inputs[0])
        case SemiJoin() | Without():
            rows, keys = inputs
            return rows if all(_are_comparable(rows[mine], keys[theirs]) for mine, theirs in node.pairs) else None
        case InnerJoin():
            return _joined(inputs, node.conditions)
        case FullJoin():
            return _joined(inputs, [node.condition])
        case LeftJoin():
            joined = _joined(inputs, [node.condition])
            return joined if node.kind is not Kind.MARK or joined is None else {**joined, node.mark: pa.bool_()}
    return None


def _is_order(order: Iterable[Expression], types: Types) -> bool:
    """Whether rows are ordered by columns, each of a type that has one order."""
    return all(
        isinstance(item, exp.Ordered) and isinstance(item.this, exp.Column) and _has_equality(types[item.this.name])
        for item in order
    )


def _with_windows(over: Over, types: Types) -> Types | None:
    """Rows with their window functions, where no two rows are peers or neighbours in one engine alone."""
    total = [output for output in over.outputs if output.name in over.total]
    if not _have_equality(over.input.columns if total else over.partition, types):
        return None
    if len({output.expression.args.get("order") for output in total}) > 1:
        return None  # which of two equal rows comes first may differ from one sort to the next
    found = {output.name: _window_type(output.expression, types) for output in over.outputs}
    return {**types, **{name: type_ for name, type_ in found.items() if type_ is not None}}


def _window_type(call: Expression, types: Types) -> pa.DataType | None:
    """The type of a window function that counts rows, looks at one of them, or sums up a frame of them."""
    function, order, frame = call.this, call.args.get("order"), call.args.get("spec")
    if not _is_order(order.expressions if order else (), types):
        return None
    match function:
        case exp.RowNumber() | exp.Rank() | exp.DenseRank():
            return pa.int32() if frame is None and not any(function.iter_expressions()) else None
        case exp.Lag() | exp.Lead():
            offset = function.args.get("offset")
            is_near = frame is None and not function.args.get("default") and (offset is None or _is_number(offset))
            return expression_type(function.this, types) if is_near else None
        case exp.Count() | exp.Min() | exp.Max() if _is_frame(frame) and not isinstance(function.this, exp.Distinct):
            return expression_type(function, types)
        case exp.Sum() if _is_frame(frame):
            type_ = expression_type(function, types)
            is_checked = type_ is not None and pa.types.is_decimal128(type_) and exact.may_overflow(type_)
            return None if is_checked else type_  # CHECKED_SUM has two functions, and OVER can follow one
    return None


def _is_frame(frame: Expression | None) -> bool:
    """Whether a frame is counted in rows, or ends with peers; other ranges are up to arithmetic."""
    if frame is None:
        return True
    is_counted = frame.text("kind").upper() == "ROWS"
    bounds = frame.args.get("start"), frame.args.get("end")
    return all(bound in _ENDS or (is_counted and _is_number(bound)) for bound in bounds)


def _is_number(expression: Expression) -> bool:
    return isinstance(expression, exp.Literal) and _constant(expression) is not None


def _outputs(outputs: Iterable[Output], types: Types) -> Types | None:
    found = {output.name: expression_type(output.expression, types) for output in outputs}
    return {name: type_ for name, type_ in found.items() if type_ is not None}


def _united(branches: list[Types]) -> Types:
    """Columns with a type that those of all branches have in common."""
    names = set(branches[0]).intersection(*branches)
    united = {name: exact.common({branch[name] for branch in branches}) for name in names}
    return {name: type_ for name, type_ in united.items() if type_ is not None}


def _both(inputs: Iterable[Types]) -> Types:
    return {name: type_ for types in inputs for name, type_ in types.items()}


def _joined(inputs: list[Types], conditions: Iterable[Expression]) -> Types | None:
    both = _both(inputs)
    return both if all(_is_condition(condition, both) for condition in conditions) else None


def _is_condition(expression: Expression, types: Types) -> bool:
    return bool(expression_type(expression, types) == pa.bool_())


def expression_type(expression: Expression, types: Types) -> pa.DataType | None:
    """The type of an expression that every engine computes alike; None of any other."""
    if isinstance(expression, _CHOICES):
        return _choice_type(expression, types)
    parts = [expression_type(part, types) for part in expression.iter_expressions()]
    match expression:
        case exp.Column() if not expression.table:
            return types.get(expression.name)
        case exp.Literal() if expression.is_string:
            return pa.string() if _PLAIN_TEXT.fullmatch(expression.name) else None
        case exp.Literal():
            return exact.written(expression.name)
        case exp.Boolean():
            return pa.bool_()
        case exp.Paren():
            return parts[0]
        case exp.Cast():
            return _cast_type(expression, parts[0])
        case exp.Add() | exp.Sub() if _is_later_day(expression, parts[0]):
            return pa.date32()
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _calculated(expression, parts)
        case exp.Neg():
            return exact.negated(parts[0]) if parts[0] is not None else None
        case exp.Extract() | exp.Anonymous():
            return pa.int32() if _part_of_a_day(expression) in _PARTS_OF_A_DAY and parts[-1] == pa.date32() else None
        case exp.Like():
            return pa.bool_() if parts == [pa.string(), pa.string()] and _is_part(expression.expression) else None
        case exp.And() | exp.Or() | exp.Not():
            return pa.bool_() if set(parts) == {pa.bool_()} else None
        case exp.Is() if isinstance(expression.expression, exp.Null):
            return pa.bool_() if parts[0] is not None else None
        case exp.In() if not {"query", "unnest", "field"} & {name for name, value in expression.args.items() if value}:
            return pa.bool_() if _is_choice(expression, types) else None
        case exp.Between():
            ends = expression.args["low"], expression.args["high"]
            return pa.bool_() if _is_comparison(expression.this, ends, types) else None
        case exp.Substring():
            return pa.string() if parts[0] == pa.string() and _is_counted(expression) else None
        case exp.Sum() if len(parts) == 1 and parts[0] is not None:
            return exact.summed(parts[0])
        case exp.Avg() if len(parts) == 1 and parts[0] is not None:
            return exact.averaged(parts[0])
        case exp.Min() | exp.Max() if len(parts) == 1 and parts[0] is not None and _has_equality(parts[0]):
            return parts[0]
        case exp.Count() if isinstance(expression.this, exp.Distinct):
            return pa.int64() if _is_counted_once(expression.this, types) else None
        case exp.Count() if len(parts) == 1:
            return pa.int64() if parts[0] is not None or isinstance(expression.this, exp.Star) else None
    if isinstance(expression, _COMPARISONS):
        is_compared = _is_comparison(expression.this, [expression.expression], types) or _rounded_to(expression, types)
        return pa.bool_() if is_compared else None
    return None


def _choice_type(choice: Expression, types: Types) -> pa.DataType | None:
    """CASE with conditions, IF and COALESCE: the type that all results have in common."""
    match choice:
        case exp.Case():
            conditions = [branch.this for branch in choice.args["ifs"]]
            results = [*(branch.args["true"] for branch in choice.args["ifs"]), choice.args.get("default")]
            if choice.this:
                return None
        case exp.If():
            conditions, results = [choice.this], [choice.args["true"], choice.args.get("false")]
        case _:
            conditions, results = [], [choice.this, *choice.expressions]
    found = {
        expression_type(result, types) for result in results if result is not None and not isinstance(result, exp.Null)
    }
    if None in found or not found or not all(_is_condition(condition, types) for condition in conditions):
        return None
    return exact.common(found)


def _cast_type(cast: exp.Cast, type_: pa.DataType | None) -> pa.DataType | None:
    if cast.to.this == exp.DType.DATE and cast.this.is_string:
        return pa.date32() if _is_day(cast.this.name) else None
    if isinstance(cast.this.unnest(), exp.Literal):
        return None  # `1L` is a literal to Spark, of as many digits as it has
    return exact.cast_to(cast.to.sql(dialect=SparkSql).lower(), type_) if type_ is not None else None


def _is_day(text: str) -> bool:
    """Whether a text is a day of the calendar. Where it is none, Spark's ANSI mode decides what that is."""
    with suppress(ValueError):
        return bool(_DATE.fullmatch(text) and date.fromisoformat(text))
    return False


def _calculated(expression: exp.Binary, parts: list[pa.DataType | None]) -> pa.DataType | None:
    one, other = parts
    if one is None or other is None:
        return None
    if not (pa.types.is_decimal128(one) or pa.types.is_decimal128(other)):
        if _constant(expression) is not None:
            return pa.int32()
        return exact.weighed(one, other) if isinstance(expression, exp.Mul) else None
    first, second = exact.operand(one, _digits(expression.this)), exact.operand(other, _digits(expression.expression))
    if (
        first is None
        or second is None
        or any(isinstance(side.unnest(), exp.Neg) for side in expression.iter_expressions())
    ):
        return None
    match expression:
        case exp.Mul():
            return exact.multiplied(first, second)
        case exp.Div():
            # One inside of another would be written out many times.
            is_nested = any(side.find(exp.Div, exp.Avg) for side in expression.iter_expressions())
            return None if is_nested else exact.divided(first, second)
    return exact.added(first, second)


def _constant(expression: Expression) -> int | None:
    """The value of an integer that is written as a sum, difference or product of others, if Spark has room for it."""
    bare = expression.unnest()
    if isinstance(bare, exp.Literal):
        return int(bare.name) if exact.written(bare.name) == pa.int32() and not bare.is_string else None
    if not isinstance(bare, exp.Add | exp.Sub | exp.Mul):
        return None
    one, other = _constant(bare.this), _constant(bare.expression)
    if one is None or other is None:
        return None
    value = one + other if isinstance(bare, exp.Add) else one - other if isinstance(bare, exp.Sub) else one * other
    return value if abs(value) <= exact.LARGEST_INT else None


def _is_counted_once(distinct: exp.Distinct, types: Types) -> bool:
    """Whether it is one value that is counted, of a type in which different values are different everywhere."""
    values = [expression_type(value, types) for value in distinct.expressions]
    return len(values) == 1 and values[0] is not None and _has_equality(values[0])


def _digits(expression: Expression) -> str | None:
    """An integer as it is written."""
    bare = expression.unnest()
    return bare.name if isinstance(bare, exp.Literal) and not bare.is_string and bare.is_int else None


def _is_comparison(first: Expression, others: Iterable[Expression], types: Types) -> bool:
    one = expression_type(first, types)
    return all(_are_comparable(one, expression_type(other, types)) for other in others)


def _is_choice(among: exp.In, types: Types) -> bool:
    """Whether a value is compared with all of a list in one type, as Spark does, that has room for each of them."""
    kinds = {expression_type(each, types) for each in (among.this, *among.expressions)}
    return _is_comparison(among.this, among.expressions, types) and (len(kinds) == 1 or exact.are_comparable(*kinds))


def _rounded_to(comparison: Expression, types: Types) -> str | None:
    """The type, as DuckDB calls it, that both sides of a comparison are rounded to first, if they are."""
    one, other = (expression_type(side, types) for side in (comparison.this, comparison.expression))
    rounded = exact.rounded_to(one, other) if one is not None and other is not None else None
    return exact.in_duckdb(rounded) if rounded is not None else None


def _part_of_a_day(expression: exp.Extract | exp.Anonymous) -> str:
    """The unit of `EXTRACT(YEAR FROM d)` and of `year(d)`."""
    if isinstance(expression, exp.Anonymous):
        return str(expression.name).upper() if len(expression.expressions) == 1 else ""
    return str(expression.this.name).upper()


# For DuckDB


def _in_duckdb(node: Operator, types: Types) -> Operator:
    """The node with every number cast to the type that it has in Spark, also where it is compared."""
    if isinstance(node, Over):
        return _windows_in_duckdb(node, types)
    written = (found for expression in node.expressions for found in expression.find_all(*_COMPUTED, *_COMPARISONS))
    if not any(written):
        return node
    return node.with_expressions(lambda expression: _with_casts(expression, types))


def _windows_in_duckdb(over: Over, types: Types) -> Operator:
    """A call is one only with OVER right behind it: what it comes to is cast above."""
    calls = over.with_expressions(lambda call: _with_casts(call, types))
    names = {output.name: exact.in_duckdb(_window_type(output.expression, types)) for output in over.outputs}
    results = (Output(name, _cast(column(name), type_) if type_ else column(name)) for name, type_ in names.items())
    return Project(calls, (*passing(over.input.columns), *results))


def _with_casts(expression: Expression, types: Types) -> Expression:
    if isinstance(expression, exp.Avg) and (type_ := expression_type(expression, types)):
        return _with_casts(_divided(expression.this, type_), types)
    result = expression.copy()
    for before, part in zip(list(expression.iter_expressions()), list(result.iter_expressions()), strict=True):
        part.replace(_with_casts(before, types))
    if isinstance(expression, _COMPARISONS) and (rounded := _rounded_to(expression, types)):
        for side in list(result.iter_expressions()):
            side.replace(_cast(side.copy(), rounded))
    is_number = isinstance(expression, _COMPUTED) and not isinstance(expression.parent, exp.Window)
    is_number = is_number and expression.arg_key != "ifs"  # WHEN … THEN … is no value itself
    type_ = expression_type(expression, types) if is_number else None
    name = exact.in_duckdb(type_) if type_ is not None else None
    if type_ is None or name is None:
        return result
    if isinstance(expression, _ARITHMETIC) and pa.types.is_decimal128(type_):
        sides = expression.this, expression.expression
        one, other = (exact.operand(expression_type(side, types), _digits(side)) for side in sides)
        if isinstance(expression, exp.Div):
            return _cast(_quotient(result, exact.Quotient.of(one, other, type_), one, other), name)
        result.set("this", _cast(result.this, exact.with_room(one)))
    if isinstance(expression, exp.Sum) and pa.types.is_decimal128(type_) and exact.may_overflow(type_):
        result = exp.Anonymous(
            this=CHECKED_SUM, expressions=[result.this, _cast(exp.Literal.string(exact.room(type_)), name)]
        )
    return _cast(result.this if isinstance(result, exp.Cast) else result, name)


def _divided(value: Expression, average: pa.DataType) -> Expression:
    """An average as the quotient that it is."""
    quotient = exp.Div(this=exp.Sum(this=value.copy()), expression=exp.Count(this=value.copy(), big_int=True))
    type_ = exp.DataType.build(f"DECIMAL({average.precision}, {average.scale})", dialect=SparkSql)
    return exp.Cast(this=quotient, to=type_)


def _quotient(division: Expression, how: exact.Quotient, one: pa.DataType, other: pa.DataType) -> Expression:
    whole = exp.Anonymous(
        this=QUOTIENT,
        expressions=[
            _unscaled(division.this, one),
            _unscaled(division.expression, other),
            _cast(exp.Literal.string(how.shift), "HUGEINT"),
            _cast(exp.Literal.string(how.bound), "HUGEINT"),
        ],
    )
    unit = _cast(exp.Literal.string(how.unit), how.unit_type)
    return exp.Mul(this=_cast(whole, "DECIMAL(38, 0)"), expression=unit)


def _unscaled(number: Expression, type_: pa.DataType) -> Expression:
    wide, power = exact.unscaled(type_)
    product = exp.Mul(this=_cast(exp.Paren(this=number), wide), expression=exp.Literal.number(power))
    return _cast(product, "HUGEINT")


def _cast(expression: Expression, name: str) -> Expression:
    """A cast that fails where Spark's may do otherwise. In parentheses, lest it be taken for the one it stands for."""
    return exp.Paren(this=exp.Cast(this=expression, to=exp.DataType.build(name, dialect="duckdb")))


def _is_later_day(sum_: exp.Binary, day: pa.DataType | None) -> bool:
    """A day that is written, and an interval of whole days, months or years."""
    first, interval = sum_.this, sum_.expression
    if day != pa.date32() or not isinstance(first, exp.Cast) or not isinstance(interval, exp.Interval):
        return False
    unit = interval.args.get("unit")
    is_whole = unit is not None and unit.name.upper().removesuffix("S") in ("DAY", "MONTH", "YEAR")
    return bool(is_whole and interval.this.name.isdecimal() and _DAY_OF_EVERY_MONTH.fullmatch(first.this.name))


def _is_counted(part: exp.Substring) -> bool:
    """Whether a piece of text is written by numbers, from the first character on."""
    start, length = part.args.get("start"), part.args.get("length")
    numbers = [isinstance(number, exp.Literal) and number.is_int for number in (start, length)]
    return all(numbers) and start is not None and int(start.name) > 0


def _is_part(pattern: Expression) -> bool:
    """Whether LIKE just looks for text: a single character is one of different things, and may be escaped."""
    return isinstance(pattern, exp.Literal) and "_" not in pattern.name


def _are_comparable(one: pa.DataType | None, other: pa.DataType | None) -> bool:
    if one is None or other is None or not _has_equality(one):
        return False
    return bool(one == other) or exact.are_comparable(one, other)


def _is_passed(type_: pa.DataType | None) -> bool:
    """Whether values of a type come out as they went in."""
    return type_ is not None and any(is_of(type_) for is_of in _PASSED)


def _have_equality(columns: Iterable[str], types: Types) -> bool:
    return all(_has_equality(types[name]) for name in columns)


def _has_equality(type_: pa.DataType) -> bool:
    """Zeros and NaN of floats are compared in more than one way."""
    return not pa.types.is_floating(type_)
