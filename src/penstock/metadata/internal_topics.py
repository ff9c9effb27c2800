"""Topics that belong to the cluster, not to its users: their names, and whose they are.

Coordinators keep `__consumer_offsets` and `__transaction_state`, which nobody else writes. The gateway keeps
`__penstock_*`. It is an ordinary client, so its writes look like anybody's: those topics take batches, and
what else a stranger could do to them is refused (transactions that hold up readers, deletion, more
partitions, creation with a user's settings by asking for metadata).
"""

from __future__ import annotations

from typing import Final

COORDINATOR_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
GATEWAY_PREFIX: Final = "__penstock_"
METADATA_TOPIC: Final = "__cluster_metadata"


def is_internal(topic: str) -> bool:
    return topic in COORDINATOR_TOPICS or topic.startswith(GATEWAY_PREFIX)


def is_coordinators(topic: str) -> bool:
    """Whether only brokers write the topic."""
    return topic in COORDINATOR_TOPICS
