"""Environment: what a query sees of what is around it: common table expressions, and columns of outer queries."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from trickle.algebra.expressions import outer_column
from trickle.algebra.operator import Operator
from trickle.sql.scope import Scope


@dataclass(frozen=True)
class Built:
    """A tree and the names its columns have for whoever reads them by name."""

    tree: Operator
    scope: Scope


@dataclass
class Environment:
    """Common table expressions in force; each is built once, and renamed wherever it is used."""

    ctes: dict[str, exp.CTE] = field(default_factory=dict)
    built: dict[str, Built] = field(default_factory=dict)
    outer: Environment | None = None
    scope: Scope | None = None
    """The columns of the query around a subquery."""
    recursive: bool = False

    def inside(self, scope: Scope) -> Environment:
        """The environment of a subquery that may read the columns of `scope`."""
        return Environment(outer=self, scope=scope)

    def defining(self, name: str) -> Environment | None:
        """Where a common table expression of that name is defined, seen from here."""
        return next((place for place in self.chain() if name in place.ctes), None)

    def chain(self) -> list[Environment]:
        """This and every environment around it, innermost first."""
        return [self, *(self.outer.chain() if self.outer else [])]

    def definitions(self) -> list[exp.CTE]:
        """Every common table expression in force here, outermost first."""
        return [cte for place in reversed(self.chain()) for cte in place.ctes.values()]

    def find_outer(self, node: exp.Column) -> exp.Expr | None:
        """What a column means in the nearest outer query that knows it."""
        for place in self.chain():
            found = place.scope.meaning(node) if place.scope else None
            if found is not None:
                return _seen_from_inside(found)
        return None


def _seen_from_inside(expression: exp.Expr) -> exp.Expr:
    """A resolved column, or a field in one, as seen from inside a subquery."""
    return expression.transform(lambda part: outer_column(part.name) if isinstance(part, exp.Column) else part)
