from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.cli.output import CommandFailed
from penstock.cli.transactions import abort_open, find_hanging, shown_time
from penstock.gateway.kafka.open_transactions import KnownTransaction, OpenTransaction

if TYPE_CHECKING:
    from penstock.gateway.kafka.transactions import ClusterTransactions
    from penstock.types import TopicPartition

OPEN = OpenTransaction(
    topic="t",
    partition=0,
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
    start_ms=-1,
    partitions=frozenset({OPEN.where}),
)
AGE_MS_MAX = 900_000


class FakeCluster:
    """Tells at each question what is open at that moment."""

    def __init__(self, *opens: list[OpenTransaction], known: list[KnownTransaction]) -> None:
        self._opens = list(opens)
        self._known = known
        self.aborted: list[OpenTransaction] = []

    async def open(self, where: TopicPartition | None = None) -> list[OpenTransaction]:
        return [each for each in self._opens.pop(0) if where in (None, each.where)]

    async def known(self, producer_ids: Collection[int] = ()) -> list[KnownTransaction]:
        return [each for each in self._known if each.producer_id in producer_ids]

    async def abort(self, found: OpenTransaction) -> None:
        self.aborted.append(found)


def hanging(cluster: FakeCluster) -> list[tuple[OpenTransaction, str]]:
    return asyncio.run(find_hanging(cast("ClusterTransactions", cluster), AGE_MS_MAX))


def abort(cluster: FakeCluster, start_offset: int, *, is_forced: bool = False) -> OpenTransaction:
    asked = abort_open(cast("ClusterTransactions", cluster), OPEN.where, start_offset, is_forced=is_forced)
    return asyncio.run(asked)


def test_what_nobody_will_end_is_found() -> None:
    assert hanging(FakeCluster([OPEN], [OPEN], known=[])) == [(OPEN, "no coordinator knows it")]


def test_what_is_open_and_known_is_not() -> None:
    assert hanging(FakeCluster([OPEN], known=[KNOWN])) == []
    assert hanging(FakeCluster([], known=[])) == []


def test_what_ended_meanwhile_is_not() -> None:
    assert hanging(FakeCluster([OPEN], [], known=[])) == []
    begun_again = replace(OPEN, start_offset=19)
    assert hanging(FakeCluster([OPEN], [begun_again], known=[])) == []


def test_what_hangs_is_aborted() -> None:
    cluster = FakeCluster([OPEN], known=[])
    assert abort(cluster, 17) == OPEN
    assert cluster.aborted == [OPEN]


def test_what_does_not_hang_is_aborted_only_by_force() -> None:
    with pytest.raises(CommandFailed, match="'id' has it, Ongoing in 1"):
        abort(FakeCluster([OPEN], known=[KNOWN]), 17)
    forced = FakeCluster([OPEN], known=[KNOWN])
    abort(forced, 17, is_forced=True)
    assert forced.aborted == [OPEN]


def test_what_is_not_there_is_not_aborted() -> None:
    with pytest.raises(CommandFailed, match="begins at 18: open ones begin at 17"):
        abort(FakeCluster([OPEN], known=[]), 18)
    with pytest.raises(CommandFailed, match="none is open there"):
        abort(FakeCluster([], known=[]), 18)


def test_times() -> None:
    assert shown_time(-1) is None
    assert shown_time(0) == "1970-01-01T00:00:00+00:00"
