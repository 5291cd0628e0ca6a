"""The algebra: relations as frozen trees, and the rules that turn a query into the query of its change.

Importing this package registers the rules of every operator; it knows nothing of Spark, storage or catalogs.
"""

from trickle.algebra import (
    aggregate,
    expand,
    filter,  # noqa: A004 - the operator, not the builtin
    inner_join,
    opaque,
    project,
    reference,
    scan,
    semi_join,
    union_all,
)

OPERATORS = (aggregate, expand, filter, inner_join, opaque, project, reference, scan, semi_join, union_all)
