"""A writer of the soak: a process that changes one source until it is told to end, as other people's jobs do.

python writer.py KIND LOCATION SEED
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

CUSTOMERS = 40
PAUSE = 1.0
"""Seconds between two changes, on average."""


def orders(location: str, chance: random.Random, number: int) -> None:
    """New orders; now and then some that change their customer, and some that go."""
    first = chance.randrange(1 << 40)
    rows = [(first + each, chance.randrange(CUSTOMERS), chance.randrange(1, 1000)) for each in range(20)]
    ids, customers, amounts = zip(*rows, strict=True)
    write_deltalake(location, pa.table({"id": ids, "customer": customers, "amount": amounts}), mode="append")
    low = chance.randrange(CUSTOMERS)
    if number % 3 == 1:
        DeltaTable(location).update(predicate=f"customer = {low} AND amount < 300", updates={"amount": "amount + 7"})
    if number % 3 == 2:
        DeltaTable(location).delete(f"customer = {low} AND amount > 600")


def customers(location: str, chance: random.Random, number: int) -> None:
    """Customers change their tier; one comes now and then."""
    wanted = chance.randrange(CUSTOMERS)
    DeltaTable(location).update(predicate=f"id = {wanted}", updates={"tier": f"'{chance.choice('abc')}'"})
    if number % 5 == 4:
        write_deltalake(location, pa.table({"id": [CUSTOMERS + number], "tier": ["new"]}), mode="append")


def events(location: str, chance: random.Random, number: int) -> None:
    """Events, numbered without a gap: how many there are and the last number are always the same."""
    del number
    seen = DeltaTable(location).to_pyarrow_table().num_rows
    new = range(seen + 1, seen + 1 + chance.randrange(1, 30))
    kinds = [chance.choice("xyz") for _ in new]
    write_deltalake(location, pa.table({"seq": list(new), "kind": kinds}), mode="append")


KINDS: dict[str, Callable[[str, random.Random, int], None]] = {
    "orders": orders,
    "customers": customers,
    "events": events,
}


def main() -> None:
    kind, location, seed = sys.argv[1:]
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    chance, number = random.Random(seed), 0
    while not ending:
        try:
            KINDS[kind](location, chance, number)
        except CommitFailedError:  # another writer was faster
            continue
        number += 1
        time.sleep(chance.uniform(0, 2 * PAUSE))


if __name__ == "__main__":
    main()
