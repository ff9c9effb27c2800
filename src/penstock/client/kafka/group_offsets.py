"""Questions about offsets: those of a group with their metadata, and where partitions end.

Each is asked once. KafkaException says that the answer is not to be had now, or not at all.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from penstock.client.kafka.cluster import Cluster
from penstock.client.kafka.raw.brokers import Brokers
from penstock.client.kafka.raw.requests import GROUP, GroupOffset, delete_offsets, fetch_offsets, list_end

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client.pubsub.messages import Partition

GONE: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})


def group_offsets(
    brokers: Brokers, group: str, partitions: Iterable[Partition] | None = None, *, stable: bool = True
) -> dict[Partition, GroupOffset]:
    """Of those partitions, or of all, where there is one; `stable` refuses what a transaction may change.

    librdkafka's AdminClient ends the whole process when a coordinator has moved that it asks for this.
    """
    error, found = brokers.ask_coordinator(group, GROUP, fetch_offsets(group, partitions, stable=stable))
    _check(brokers, [error, *(each for _, each in found.values())])
    return {partition: each for partition, (each, _) in found.items() if each.offset >= 0}


def look_at_offsets(bootstrap: str, group: str, timeout_s: float) -> dict[Partition, int]:
    """What a group has committed, as it is now, for those who look from outside. Raises PenstockError."""
    with closing(Brokers(bootstrap)) as brokers:
        what = f"the offsets of group {group!r} are not known"
        found = Cluster(bootstrap, timeout_s).ask(lambda: group_offsets(brokers, group, stable=False), what)
    return {partition: each.offset for partition, each in found.items()}


def forget_offsets(brokers: Brokers, group: str, partitions: Iterable[Partition]) -> None:
    error, codes = brokers.ask_coordinator(group, GROUP, delete_offsets(group, partitions))
    _check(brokers, [code for code in (error, *codes.values()) if code not in GONE])


def end_offsets(brokers: Brokers, partitions: Iterable[Partition], isolation: int) -> dict[Partition, int]:
    """High watermarks, or last stable offsets for readers of what is committed."""
    found = {}
    for partition in partitions:
        error, found[partition] = brokers.ask_leader(partition, list_end(partition, isolation))
        _check(brokers, [error])
    return found


def _check(brokers: Brokers, codes: list[int]) -> None:
    for code in codes:
        if code:
            brokers.refuted(code)
            raise KafkaException(KafkaError(code))
