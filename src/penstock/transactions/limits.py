"""What bounds transactions; the names are Kafka's, with the unit at the end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    transaction_timeout_ms_max: int = 15 * 60 * 1000
    """`transaction.max.timeout.ms`: longer ones are refused."""
    transactional_id_expiration_ms: int = 7 * 24 * 3600 * 1000
    """An id that nobody has used for so long is forgotten, unless its transaction is open."""
    partitions_max: int = 10_000
    """In one transaction: all of them are in one record."""
