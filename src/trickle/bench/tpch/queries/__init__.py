"""The 22 queries, worded as in the TPC-H specification; only what Spark's intervals and unnamed columns need differs.

A query file has placeholders, `:date`, where the specification has substitution parameters. `VALIDATION` are the
values that the specification validates with. A few of them select (almost) nothing from tiny data; `TINY` replaces
those, and nothing but them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path


def _numbered(name: str, values: str) -> dict[str, str]:
    return {f"{name}{place}": value for place, value in enumerate(values.split(), start=1)}


QUERIES = tuple(f"q{number:02}" for number in range(1, 23))

TINY_BELOW = 0.1
"""The scale factor from which on the validation values select enough."""

Parameters = Mapping[str, str]

VALIDATION: Mapping[str, Parameters] = {
    "q01": {"delta": "90"},
    "q02": {"size": "15", "type": "BRASS", "region": "EUROPE"},
    "q03": {"segment": "BUILDING", "date": "1995-03-15"},
    "q04": {"date": "1993-07-01"},
    "q05": {"region": "ASIA", "date": "1994-01-01"},
    "q06": {"date": "1994-01-01", "discount": "0.06", "quantity": "24"},
    "q07": {"nation1": "FRANCE", "nation2": "GERMANY"},
    "q08": {"nation": "BRAZIL", "region": "AMERICA", "type": "ECONOMY ANODIZED STEEL"},
    "q09": {"color": "green"},
    "q10": {"date": "1993-10-01"},
    "q11": {"nation": "GERMANY", "fraction": "0.0001"},  # divided by the scale factor, as the specification says
    "q12": {"shipmode1": "MAIL", "shipmode2": "SHIP", "date": "1994-01-01"},
    "q13": {"word1": "special", "word2": "requests"},
    "q14": {"date": "1995-09-01"},
    "q15": {"date": "1996-01-01"},
    "q16": {"brand": "Brand#45", "type": "MEDIUM POLISHED", **_numbered("size", "49 14 23 45 19 3 36 9")},
    "q17": {"brand": "Brand#23", "container": "MED BOX"},
    "q18": {"quantity": "300"},
    "q19": {**_numbered("brand", "Brand#12 Brand#23 Brand#34"), **_numbered("quantity", "1 10 20")},
    "q20": {"color": "forest", "date": "1994-01-01", "nation": "CANADA"},
    "q21": {"nation": "SAUDI ARABIA"},
    "q22": _numbered("code", "13 31 23 29 30 18 17"),
}

TINY: Mapping[str, Parameters] = {
    "q02": {"size": "26", "type": "NICKEL"},  # 12 rows of scale factor 0.01 instead of 4
    "q08": {"nation": "UNITED STATES"},  # both shares were 0
    "q11": {"fraction": "0.00005"},  # 69 rows instead of 1
    "q17": {"brand": "Brand#44", "container": "WRAP CAN"},  # was NULL
    "q18": {"quantity": "230"},  # 2 rows; now the LIMIT of 100 cuts some off
    "q19": _numbered("brand", "Brand#24 Brand#41 Brand#32"),  # 7 lines instead of 1
    "q20": {"color": "lavender", "nation": "UNITED STATES"},  # 5 rows instead of 1
    "q21": {"nation": "UNITED STATES"},  # 8 rows instead of 1
}


def query(name: str, scale_factor: float) -> str:
    """The text of one of `QUERIES` with the values for a scale factor."""
    text = Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
    values = parameters(name, scale_factor)
    return re.sub(r":(\w+)", lambda placeholder: values[placeholder[1]], text).strip()


def parameters(name: str, scale_factor: float) -> Parameters:
    """The values of a query's placeholders at a scale factor."""
    values = {**VALIDATION[name], **(TINY.get(name, {}) if scale_factor < TINY_BELOW else {})}
    if name == "q11":
        values["fraction"] = f"{Decimal(values['fraction']) / Decimal(str(scale_factor)):f}"
    return values
