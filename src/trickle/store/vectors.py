"""Vectors: which rows of a data file are deleted, as the Delta protocol has it: a set of their places in the file.

A merge that writes vectors leaves the files of a table where they are: what it costs follows the change, not the table.
Spark and delta-rs both read them. delta-rs 1.6 does not write them, and Spark needs jobs for it.
"""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

FEATURE = "deletionVectors"
"""The feature of the protocol."""

PROPERTY = "delta.enableDeletionVectors"
"""The table property that lets writers make use of it."""

_FORMAT = b"\x01"
_MAGIC = (1681511377).to_bytes(4, "little")

_PYTHON_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_PYTHON_DIGITS, _Z85_DIGITS), bytes.maketrans(_Z85_DIGITS, _PYTHON_DIGITS)


@dataclass(frozen=True)
class Vector:
    """Where a set of places is written: in a file of the table (`u`), in any file (`p`), or here (`i`)."""

    storage: str
    place: str
    offset: int
    size: int
    rows: int

    @staticmethod
    def of(action: Mapping[str, Any]) -> Vector:
        """The vector that an `add` or `remove` of the log names."""
        return Vector(
            action["storageType"],
            action["pathOrInlineDv"],
            action.get("offset") or 0,
            action["sizeInBytes"],
            action["cardinality"],
        )

    @property
    def action(self) -> dict[str, object]:
        """As the log writes it."""
        offset = {} if self.storage == "i" else {"offset": self.offset}
        return {
            "storageType": self.storage,
            "pathOrInlineDv": self.place,
            **offset,
            "sizeInBytes": self.size,
            "cardinality": self.rows,
        }


@lru_cache(maxsize=256)
def read_vector(table: str, vector: Vector) -> BitMap64:
    """The places of the deleted rows; nobody changes what is returned. Raises OSError, ValueError."""
    if vector.storage == "i":
        data = base64.b85decode(vector.place.encode().translate(_FROM_Z85))[: vector.size]
    else:
        with _file(table, vector).open("rb") as file:
            file.seek(vector.offset + 4)  # its size comes first
            data = file.read(vector.size)
    if data[:4] != _MAGIC:
        raise ValueError(f"{vector.place} is no deletion vector of a kind that is known")
    return BitMap64.deserialize(data[4:])


def _file(table: str, vector: Vector) -> Path:
    if vector.storage == "p":
        return Path(vector.place.removeprefix("file://"))
    prefix, name = vector.place[:-20], vector.place[-20:]
    return vector_file(f"{table}/{prefix}", uuid.UUID(bytes=base64.b85decode(name.encode().translate(_FROM_Z85))))


def vector_file(place: str, number: uuid.UUID) -> Path:
    return Path(place) / f"deletion_vector_{number}.bin"


def write_vectors(table: str, number: uuid.UUID, places: Mapping[str, BitMap64]) -> dict[str, Vector]:
    """Writes one file, of this number, with the vectors of some data files."""
    name = base64.b85encode(number.bytes).translate(_TO_Z85).decode()
    vectors: dict[str, Vector] = {}
    content = bytearray(_FORMAT)
    for path, rows in places.items():
        data = _MAGIC + rows.serialize()
        vectors[path] = Vector("u", name, len(content), len(data), len(rows))
        content += len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    vector_file(table, number).write_bytes(content)
    return vectors
