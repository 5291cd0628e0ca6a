"""Plain: the trees that move rows and compute nothing, of which every engine makes the same.

Joins, unions, filters, different rows, sums of weights: as long as values are only passed on and compared with values
of their own type, it is no matter whether Spark or DuckDB does it. Everything else in a query is Spark's: its casts,
its decimals, its functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
from sqlglot import exp

from trickle.algebra.aggregate import Aggregate
from trickle.algebra.expand import Expand
from trickle.algebra.expressions import Expression, Output, passing
from trickle.algebra.filter import Filter
from trickle.algebra.full_join import FullJoin
from trickle.algebra.inner_join import InnerJoin
from trickle.algebra.left_join import Kind, LeftJoin
from trickle.algebra.operator import Operator, walk
from trickle.algebra.project import Project
from trickle.algebra.reference import Reference
from trickle.algebra.scan import Scan
from trickle.algebra.semi_join import SemiJoin, Without
from trickle.algebra.union_all import UnionAll

Types = Mapping[str, pa.DataType]
"""Column → its type, of the columns that can be passed on."""

Leaf = Callable[[Scan | Reference], Types | None]
"""The columns of a leaf; None where its rows are not at hand."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_OF_EVERY_MONTH = re.compile(r"\d{4}-\d{2}-(?:[01]\d|2[0-8])")
_PLAIN_TEXT = re.compile(r"[^\\']*")
_FRACTION = re.compile(r"(\d{0,9})\.(\d{1,9})")
_LARGEST_INT = 2**31 - 1

_MOST_DIGITS = 38

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


def plain_nodes(root: Operator, leaf: Leaf) -> dict[Operator, Types]:
    """The nodes of a tree that are plain down to rows at hand, with the types of all their columns."""
    found: dict[Operator, Types] = {}
    for node in walk(root):
        if isinstance(node, Reference | Scan):
            types = leaf(node)
        elif all(child in found for child in node.inputs):
            types = _types(node, [found[child] for child in node.inputs])
        else:
            types = None
        if types is not None and node.columns and all(_is_passed(types.get(name)) for name in node.columns):
            found[node] = {name: types[name] for name in node.columns}
    return found


def _types(node: Operator, inputs: list[Types]) -> Types | None:
    match node:
        case Project():
            return _outputs(node.outputs, inputs[0])
        case Filter():
            return inputs[0] if _is_condition(node.condition, inputs[0]) else None
        case UnionAll():
            return _united(inputs)
        case Aggregate():
            grouped = all(_has_equality(inputs[0][key]) for key in node.keys)
            return _outputs((*passing(node.keys), *node.aggregates), inputs[0]) if grouped else None
        case Expand():
            return inputs[0]
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


def _outputs(outputs: Iterable[Output], types: Types) -> Types | None:
    found = {output.name: _type(output.expression, types) for output in outputs}
    return {name: type_ for name, type_ in found.items() if type_ is not None}


def _united(branches: list[Types]) -> Types:
    """Columns of one type in all branches; integers of two sizes are of the larger one."""
    first, *rest = branches
    united: dict[str, pa.DataType] = {}
    for name, type_ in first.items():
        all_types = {type_, *(branch.get(name) for branch in rest)}
        if all_types <= {pa.int32(), pa.int64()}:
            united[name] = pa.int64() if pa.int64() in all_types else pa.int32()
        elif len(all_types) == 1:
            united[name] = type_
    return united


def _joined(inputs: list[Types], conditions: Iterable[Expression]) -> Types | None:
    both = {name: type_ for types in inputs for name, type_ in types.items()}
    return both if all(_is_condition(condition, both) for condition in conditions) else None


def _is_condition(expression: Expression, types: Types) -> bool:
    return bool(_type(expression, types) == pa.bool_())


def _type(expression: Expression, types: Types) -> pa.DataType | None:
    """The type of an expression that every engine computes alike; None of any other."""
    parts = [_type(part, types) for part in expression.iter_expressions()]
    match expression:
        case exp.Column() if not expression.table:
            return types.get(expression.name)
        case exp.Literal():
            return _literal_type(expression)
        case exp.Boolean():
            return pa.bool_()
        case exp.Paren():
            return parts[0]
        case exp.Cast():
            is_date = expression.to.this == exp.DType.DATE and expression.this.is_string
            return pa.date32() if is_date and _DATE.fullmatch(expression.this.name) else None
        case exp.Add() | exp.Sub():
            return pa.date32() if _is_later_day(expression, parts[0]) else None
        case exp.Like():
            return pa.bool_() if parts == [pa.string(), pa.string()] and _is_part(expression.expression) else None
        case exp.And() | exp.Or() | exp.Not():
            return pa.bool_() if set(parts) == {pa.bool_()} else None
        case exp.Is() if isinstance(expression.expression, exp.Null):
            return pa.bool_() if parts[0] is not None else None
        case exp.In() if not {"query", "unnest", "field"} & {name for name, value in expression.args.items() if value}:
            return pa.bool_() if _is_comparison(expression.this, expression.expressions, types) else None
        case exp.Between():
            ends = expression.args["low"], expression.args["high"]
            return pa.bool_() if _is_comparison(expression.this, ends, types) else None
        case exp.Neg() | exp.Mul():
            return _number_type(parts)
        case exp.Substring():
            return pa.string() if parts[0] == pa.string() and _is_counted(expression) else None
        case exp.Sum():
            return pa.int64() if parts[0] in (pa.int32(), pa.int64()) else None
        case exp.Min() | exp.Max() if len(parts) == 1 and parts[0] is not None and _has_equality(parts[0]):
            return parts[0]
        case exp.Count():
            return pa.int64() if parts[0] is not None or isinstance(expression.this, exp.Star) else None
    if isinstance(expression, _COMPARISONS):
        return pa.bool_() if _is_comparison(expression.this, [expression.expression], types) else None
    return None


def _literal_type(literal: exp.Literal) -> pa.DataType | None:
    if literal.is_string:
        return pa.string() if _PLAIN_TEXT.fullmatch(literal.name) else None
    if literal.is_int:
        return pa.int32() if int(literal.name) <= _LARGEST_INT else None
    return None


def _operand(expression: Expression, types: Types) -> pa.DataType | None:
    """The type of one side of a comparison. A fraction is a number there, whatever type it has elsewhere."""
    bare = expression.unnest()
    fraction = _FRACTION.fullmatch(bare.name) if isinstance(bare, exp.Literal) and not bare.is_string else None
    if fraction:
        return pa.decimal128(len(fraction[1]) + len(fraction[2]), len(fraction[2]))
    return _type(expression, types)


def _is_comparison(first: Expression, others: Iterable[Expression], types: Types) -> bool:
    one = _operand(first, types)
    return all(_are_comparable(one, _operand(other, types)) for other in others)


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
    return all(numbers) and start is not None and start.name != "0"


def _is_part(pattern: Expression) -> bool:
    """Whether LIKE just looks for text: a single character is one of different things, and may be escaped."""
    return isinstance(pattern, exp.Literal) and "_" not in pattern.name


def _number_type(parts: list[pa.DataType | None]) -> pa.DataType | None:
    """Weights and their products. Integers of 32 bits would overflow in Spark earlier than elsewhere."""
    if pa.int64() in parts and set(parts) <= {pa.int32(), pa.int64()}:
        return pa.int64()
    return pa.int32() if parts == [pa.int32()] else None


def _are_comparable(one: pa.DataType | None, other: pa.DataType | None) -> bool:
    if one is None or other is None or not _has_equality(one):
        return False
    return bool(one == other) or _are_numbers(one, other)


def _are_numbers(one: pa.DataType, other: pa.DataType) -> bool:
    """Integers and decimals that a decimal has room for both of."""
    digits, more = _digits(one), _digits(other)
    if digits is None or more is None:
        return False
    return max(digits[0], more[0]) + max(digits[1], more[1]) <= _MOST_DIGITS


def _digits(type_: pa.DataType) -> tuple[int, int] | None:
    """How many digits a number has before the point and behind it."""
    if pa.types.is_signed_integer(type_):
        return 19, 0
    return (type_.precision - type_.scale, type_.scale) if pa.types.is_decimal128(type_) else None


def _is_passed(type_: pa.DataType | None) -> bool:
    """Whether values of a type come out as they went in."""
    return type_ is not None and any(is_of(type_) for is_of in _PASSED)


def _has_equality(type_: pa.DataType) -> bool:
    """Zeros and NaN of floats are compared in more than one way."""
    return not pa.types.is_floating(type_)
