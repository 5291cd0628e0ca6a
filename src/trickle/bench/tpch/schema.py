"""The eight tables with their Spark types, and how many rows a scale factor gives the tables whose keys are dense."""

from __future__ import annotations

from collections.abc import Mapping

_MONEY = "DECIMAL(15,2)"

TABLES: Mapping[str, Mapping[str, str]] = {
    "region": {"r_regionkey": "BIGINT", "r_name": "STRING", "r_comment": "STRING"},
    "nation": {"n_nationkey": "BIGINT", "n_name": "STRING", "n_regionkey": "BIGINT", "n_comment": "STRING"},
    "supplier": {
        "s_suppkey": "BIGINT",
        "s_name": "STRING",
        "s_address": "STRING",
        "s_nationkey": "BIGINT",
        "s_phone": "STRING",
        "s_acctbal": _MONEY,
        "s_comment": "STRING",
    },
    "customer": {
        "c_custkey": "BIGINT",
        "c_name": "STRING",
        "c_address": "STRING",
        "c_nationkey": "BIGINT",
        "c_phone": "STRING",
        "c_acctbal": _MONEY,
        "c_mktsegment": "STRING",
        "c_comment": "STRING",
    },
    "part": {
        "p_partkey": "BIGINT",
        "p_name": "STRING",
        "p_mfgr": "STRING",
        "p_brand": "STRING",
        "p_type": "STRING",
        "p_size": "INT",
        "p_container": "STRING",
        "p_retailprice": _MONEY,
        "p_comment": "STRING",
    },
    "partsupp": {
        "ps_partkey": "BIGINT",
        "ps_suppkey": "BIGINT",
        "ps_availqty": "INT",
        "ps_supplycost": _MONEY,
        "ps_comment": "STRING",
    },
    "orders": {
        "o_orderkey": "BIGINT",
        "o_custkey": "BIGINT",
        "o_orderstatus": "STRING",
        "o_totalprice": _MONEY,
        "o_orderdate": "DATE",
        "o_orderpriority": "STRING",
        "o_clerk": "STRING",
        "o_shippriority": "INT",
        "o_comment": "STRING",
    },
    "lineitem": {
        "l_orderkey": "BIGINT",
        "l_partkey": "BIGINT",
        "l_suppkey": "BIGINT",
        "l_linenumber": "INT",
        "l_quantity": _MONEY,
        "l_extendedprice": _MONEY,
        "l_discount": _MONEY,
        "l_tax": _MONEY,
        "l_returnflag": "STRING",
        "l_linestatus": "STRING",
        "l_shipdate": "DATE",
        "l_commitdate": "DATE",
        "l_receiptdate": "DATE",
        "l_shipinstruct": "STRING",
        "l_shipmode": "STRING",
        "l_comment": "STRING",
    },
}

_ROWS_AT_ONE = {
    "supplier": 10_000,
    "customer": 150_000,
    "part": 200_000,
    "partsupp": 800_000,
    "orders": 1_500_000,
    "lineitem": 6_000_000,
}


def rows(table: str, scale_factor: float) -> int:
    """The rows of a table that grows with the scale factor: exact but for lineitem, whose orders have 1 to 7 lines."""
    return int(_ROWS_AT_ONE[table] * scale_factor)
