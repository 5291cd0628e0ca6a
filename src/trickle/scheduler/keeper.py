"""Keeper: holds the lease for this process, and knows when it no longer does, also after having been stopped."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread

from trickle.catalog.catalog import Catalog
from trickle.catalog.model import Lease
from trickle.errors import TrickleError

LEASE_SECONDS = 15.0
"""Without a sign of life for so long, a scheduler is taken to be gone."""


def own_name() -> str:
    """For people and for the database: no two processes have the same."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


@dataclass
class Keeper:
    """The lease as one process sees it."""

    catalog: Catalog
    seconds: float = LEASE_SECONDS
    name: str = field(default_factory=own_name)
    _busy: bool = False
    _held: Lease | None = None
    _until: float = 0.0
    """By a clock that goes on while the process is stopped."""
    _ended: Event = field(default_factory=Event)

    def try_to_take(self) -> Lease:
        """The lease as it is now; this process is its holder if nobody else was."""
        asked = time.monotonic()
        lease = self.catalog.take_lease(self.name, self.seconds)
        if lease.holder == self.name:
            self._held, self._until, self._ended = lease, asked + self.seconds, Event()
            Thread(target=self._stay_alive, args=(lease, self._ended), name="trickle-lease", daemon=True).start()
        return lease

    @property
    def is_held(self) -> bool:
        """Whether nobody else can have taken the lease yet."""
        return self._held is not None and time.monotonic() < self._until

    @property
    def epoch(self) -> int:
        return self._held.epoch if self._held else 0

    def tell(self, *, busy: bool) -> Lease | None:
        """Lets everybody know whether this process is refreshing; None where it has lost the lease."""
        self._busy = busy
        return self._renew(self._held) if self._held else None

    def release(self) -> None:
        """Others need not wait for it to run out."""
        self._ended.set()
        if self._held:
            held, self._held = self._held, None
            self.catalog.release_lease(held)

    def _renew(self, lease: Lease) -> Lease | None:
        asked = time.monotonic()
        renewed = self.catalog.renew_lease(lease, self.seconds, busy=self._busy)
        if self._held is lease:
            self._until = asked + self.seconds if renewed else 0.0
        return renewed

    def _stay_alive(self, lease: Lease, ended: Event) -> None:
        while not ended.wait(self.seconds / 3):
            with suppress(TrickleError):  # where the catalog is away, the lease is held as long as it lasts
                if self._renew(lease) is None:
                    return
