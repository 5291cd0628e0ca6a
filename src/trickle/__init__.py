"""Stream tables for the lakehouse: write a SELECT, get a Delta table that is always right and cheap to keep fresh."""

from trickle.api import StreamTableStatus, Trickle, connect
from trickle.catalog.model import Action, Mode, RefreshRecord, Status, StreamTable
from trickle.errors import RetryableError, TrickleError, UserError

RefreshReport = RefreshRecord

__all__ = [
    "Action",
    "Mode",
    "RefreshReport",
    "RetryableError",
    "Status",
    "StreamTable",
    "StreamTableStatus",
    "Trickle",
    "TrickleError",
    "UserError",
    "connect",
]
__version__ = "0.1.0"
