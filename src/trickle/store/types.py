"""Types, as the Delta log writes them, of which several readers and writers make the same."""

from __future__ import annotations

import re

from pyspark.sql.types import StringType, StructField

_PADDED = "__CHAR_VARCHAR_TYPE_STRING"

_COMPARED = re.compile(r"string|byte|short|integer|long|date|boolean|binary|decimal\(\d+,\d+\)")


def is_compared(type_: object) -> bool:
    """Whether two values are equal exactly where Spark calls them equal. Zeros and NaN of floats are not."""
    return isinstance(type_, str) and _COMPARED.fullmatch(type_) is not None


def is_fed(type_: object) -> bool:
    """Whether values come the same through a change feed; timestamps may be INT96, which can be read in two ways."""
    return is_compared(type_) or type_ in ("float", "double")


def is_filed(type_: object) -> bool:
    """Whether values come the same from a Parquet file."""
    return is_fed(type_) or type_ in ("timestamp", "timestamp_ntz")


def is_fixed(type_: object) -> bool:
    """Whether all values take the same few bytes."""
    return is_filed(type_) and type_ not in ("string", "binary")


def is_itself(field: StructField) -> bool:
    """Whether a column is its values and nothing more: no text that is padded, or compared by rules of its own."""
    return _PADDED not in (field.metadata or {}) and (
        not isinstance(field.dataType, StringType) or field.dataType == StringType()
    )
