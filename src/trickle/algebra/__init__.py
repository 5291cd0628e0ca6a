"""The algebra: relations as frozen trees, and the rules that turn a query into the query of its change.

Importing this package registers the rules of every operator; it knows nothing of Spark, storage or catalogs.
"""

from trickle.algebra import (
    aggregate,
    expand,
    filter,  # noqa: A004 - the operator, not the builtin
    full_join,
    generate,
    inner_join,
    left_join,
    opaque,
    over,
    project,
    reference,
    scan,
    semi_join,
    top_k,
    union_all,
    values,
)

OPERATORS = (
    aggregate,
    expand,
    filter,
    full_join,
    generate,
    inner_join,
    left_join,
    opaque,
    over,
    project,
    reference,
    scan,
    semi_join,
    top_k,
    union_all,
    values,
)
