from __future__ import annotations

from dataclasses import replace

from penstock.gateway.kafka.open_transactions import (
    NO_TIMESTAMP,
    KnownTransaction,
    OpenTransaction,
    owner_of,
    why_hanging,
)
from penstock.types import TopicPartition

OPEN = OpenTransaction(
    topic="t",
    partition=1,
    leader=2,
    producer_id=1_000,
    producer_epoch=3,
    coordinator_epoch=-1,
    start_offset=17,
    last_timestamp_ms=5_000,
)
KNOWN = KnownTransaction(
    transactional_id="id",
    coordinator=1,
    state="Ongoing",
    producer_id=1_000,
    producer_epoch=3,
    timeout_ms=60_000,
    start_ms=4_000,
    partitions=frozenset({TopicPartition("t", 1), TopicPartition("u", 0)}),
)
AGE_MS_MAX = 900_000


def test_one_that_its_coordinator_knows_does_not_hang() -> None:
    assert owner_of(OPEN, [KNOWN]) is KNOWN
    assert why_hanging(OPEN, [KNOWN], now_ms=10_000, age_ms_max=AGE_MS_MAX) is None


def test_one_that_no_coordinator_knows_hangs() -> None:
    other_partition = replace(KNOWN, partitions=frozenset({TopicPartition("t", 0)}))
    other_producer = replace(KNOWN, producer_id=1_001)
    for known in ([], [other_partition], [other_producer], [other_partition, other_producer]):
        assert owner_of(OPEN, known) is None
        assert why_hanging(OPEN, known, now_ms=10_000, age_ms_max=AGE_MS_MAX) == "no coordinator knows it"


def test_one_that_takes_longer_than_any_may_hangs() -> None:
    late = KNOWN.start_ms + AGE_MS_MAX
    assert why_hanging(OPEN, [KNOWN], now_ms=late, age_ms_max=AGE_MS_MAX) is None
    assert why_hanging(OPEN, [KNOWN], now_ms=late + 1, age_ms_max=AGE_MS_MAX) == "Ongoing for 900 s"
    unknown_age = replace(KNOWN, start_ms=NO_TIMESTAMP)
    assert why_hanging(OPEN, [unknown_age], now_ms=late + 1, age_ms_max=AGE_MS_MAX) is None
