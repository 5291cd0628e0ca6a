"""Spark's SQL, read so that what is printed again means what was written.

sqlglot translates between dialects: it understands hundreds of functions, and prints many of them by another name, with
other arguments, or by an operator of another precedence. Nothing is translated here, so a call is understood only where
the algebra looks at it; every other one is a name with its arguments, and is printed as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

UNDERSTOOD = frozenset(
    """COUNT SUM AVG MIN MAX COUNT_IF APPROX_COUNT_DISTINCT REGR_COUNT
    BIT_AND BIT_OR BIT_XOR BOOL_AND BOOL_OR STDDEV_POP VAR_POP
    GROUPING GROUPING_ID NTH_VALUE LAG LEAD NTILE RANK DENSE_RANK PERCENT_RANK CUME_DIST ROW_NUMBER
    EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE ARRAY SEQUENCE SIZE
    COALESCE NULLIF IF ABS LENGTH EXISTS""".split()
)
"""Calls that the algebra looks at, or that both engines of the laws must have by their own names."""

_WITH_UNIT = frozenset("DATEADD DATE_ADD DATEDIFF DATE_DIFF TIMESTAMPADD TIMESTAMPDIFF".split())
"""Calls that may have a unit for their first argument, as a bare word: `datediff(MONTH, a, b)`."""

_OWN_SYNTAX = frozenset("CAST TRY_CAST EXTRACT OVERLAY POSITION SUBSTRING SUBSTR TRIM".split())
"""Calls with words between their arguments."""

_HINTS = frozenset(
    "BROADCAST BROADCASTJOIN MAPJOIN MERGE MERGEJOIN SHUFFLEMERGE SHUFFLE_HASH SHUFFLE_REPLICATE_NL".split()
)


_LITERAL_TYPES = (
    exp.DType.DATE,
    exp.DType.TIME,
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPTZ,
)
_AS_LITERAL = "written_as_literal"
"""Marks the cast that `DATE '2024-01-01'` is read as."""
_IN_FRONT = "written_in_front"
"""Marks the NOT of `NOT x IS NULL`; that of `x IS NOT NULL` has none."""
_IN_PARENTHESES = "written_in_parentheses"
"""Marks `(VALUES …)`."""

_Node = TypeVar("_Node", bound=exp.Expr)


class AsWritten(exp.Expression, exp.Query):
    """A query in its author's own words. `expressions` are pieces of its text (`Var`) and what stands in for tables."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


def _with_unit(name: str) -> Callable[[list[exp.Expr]], exp.Anonymous]:
    def build(arguments: list[exp.Expr]) -> exp.Anonymous:
        first, *rest = arguments
        unit = exp.Var(this=first.name) if len(rest) == 2 and isinstance(first, exp.Column) else first
        return exp.Anonymous(this=name, expressions=[unit, *rest])

    return build


class _Parser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {
        **{name: build for name, build in SparkParser.FUNCTIONS.items() if name in UNDERSTOOD},
        **{name: _with_unit(name) for name in _WITH_UNIT},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in _OWN_SYNTAX | _HINTS
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }
    UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.NOT: lambda self: _written(SparkParser.UNARY_PARSERS[TokenType.NOT](self), _IN_FRONT),
    }
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Any]] = {
        kind: lambda _self, this, to: _written(exp.Cast(this=this, to=to), _AS_LITERAL) for kind in _LITERAL_TYPES
    }

    def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values | None:
        derived = self._curr.token_type is TokenType.L_PAREN
        values = super()._parse_derived_table_values(allow_value_synonym)
        return _written(values, _IN_PARENTHESES) if values and derived else values


class _Generator(SparkGenerator):
    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()  # a WITH inside stays inside
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **{kind: write for kind, write in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select},
        AsWritten: lambda self, text: "".join(self.sql(piece) for piece in text.expressions),
        exp.BitwiseLeftShift: lambda self, shift: self.binary(shift, "<<"),
        exp.BitwiseRightShift: lambda self, shift: self.binary(shift, ">>"),
    }

    def not_sql(self, expression: exp.Not) -> str:
        inner = expression.this
        in_front = expression.meta.get(_IN_FRONT)
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null) and not in_front:
            return f"{self.sql(inner, 'this')} IS NOT NULL"
        return super().not_sql(expression)

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        if expression.meta.get(_AS_LITERAL):
            return f"{self.sql(expression, 'to')} {self.sql(expression, 'this')}"
        return super().cast_sql(expression, safe_prefix)

    def values_sql(self, expression: exp.Values, values_as_table: bool = True) -> str:
        self.WRAP_DERIVED_VALUES = bool(expression.meta.get(_IN_PARENTHESES))
        return super().values_sql(expression, values_as_table)


class SparkSql(Spark):
    """Spark's SQL as Spark 4 reads it."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]  # a doubled quote is a quote, not a second string

    Parser = _Parser
    Generator = _Generator


def _written(node: _Node, how: str) -> _Node:
    """Remembers how a node was written; Spark does not take the two ways for the same."""
    node.meta[how] = True
    return node


_LEFT_ALONE = (exp.Dot, exp.Escape, exp.PropertyEQ, exp.Kwarg, exp.Slice)


def in_parentheses(query: exp.Expr) -> exp.Expr:
    """The query with parentheses around every operation, so that nothing depends on which operator binds tighter."""
    result = query.copy()
    for node in reversed(list(result.walk())):  # the inner ones first
        parent, key, index = node.parent, node.arg_key, node.index
        if parent is None or isinstance(parent, exp.Paren | exp.Escape):
            continue
        if isinstance(node, exp.Is) and isinstance(parent, exp.Not):
            continue  # it is printed as one: x IS NOT NULL
        if isinstance(node, exp.And | exp.Or) and type(node) is type(parent):
            continue  # Spark balances a chain of ANDs, and does not where one has parentheses
        if isinstance(node, exp.Binary | exp.Not) and not isinstance(node, _LEFT_ALONE):
            parent.set(str(key), exp.Paren(this=node), index)
        elif isinstance(node, exp.SetOperation) and isinstance(parent, exp.SetOperation):
            parent.set(str(key), exp.Subquery(this=node), index)
    return result
