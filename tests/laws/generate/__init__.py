"""Random queries in Spark's dialect over all that has rules, with data and changes for them; one file for each theme.

Only what means the same in Spark and DuckDB is generated, and nothing that depends on the order of rows: sums are over
values that every type holds exactly, an average is never summed again, a LIMIT orders by all its columns, and a window
function that tells the rows of a tie apart orders by all that can be told apart.
"""

from laws.generate.case import Case, random_case, random_query

__all__ = ["Case", "random_case", "random_query"]
