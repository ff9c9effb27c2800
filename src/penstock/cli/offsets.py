"""Offsets of partitions, asked of whatever broker leads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import IsolationLevel, TopicPartition

from penstock.cli.kafka import REQUEST_SECONDS_MAX, answer
from penstock.client.kafka.listed_offsets import list_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka.admin import AdminClient, OffsetSpec


class Position(NamedTuple):
    offset: int
    leader_epoch: int | None


def positions(
    admin: AdminClient, partitions: Iterable[tuple[str, int]], spec: OffsetSpec
) -> dict[tuple[str, int], Position]:
    """The offset that `spec` means in each partition; -1 where a time is after the last record.

    Read uncommitted, so that `OffsetSpec.latest()` is the high watermark.
    """
    wanted = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    if not wanted:
        return {}
    futures = list_offsets(
        admin, wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_SECONDS_MAX
    )
    found = {}
    for partition, future in futures.items():
        result = answer(future)
        epoch = result.leader_epoch
        found[partition.topic, partition.partition] = Position(
            result.offset, epoch if epoch is not None and epoch >= 0 else None
        )
    return found
