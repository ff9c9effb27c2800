"""Where all subscriptions of some topics stand, as told by all group coordinators, or not at all.

Why the answer is complete is said in replication/consumed.py. A coordinator is asked for partitions of
`__consumer_offsets` by number. It confirms that it leads each of them, and gives the positions only if it has
led them in the same epochs all the time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from penstock.broker.group_coordinator import OFFSETS_TOPIC
from penstock.groups.positions import Positions, add, positions_of
from penstock.metadata.image import NO_LEADER
from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.broker.broker import Broker
    from penstock.broker.group_shard import GroupShard

POSITIONS: Final = (9, 9)
"""OffsetFetch, in a version that clients do not use: see handlers/subscription_positions.py."""
ANSWER_S_MAX: Final = 10.0


class PositionsUnknownError(Exception):
    """Some coordinator did not answer, or was not sure to be one."""


async def all_positions(broker: Broker, topics: Collection[str], *, closed: bool = False) -> Positions:
    """With `closed`, of topics that nobody can subscribe to any more, see unread_topics.py: whoever still
    would let somebody do so does not answer. Raises PositionsUnknownError."""
    found: Positions = {}
    answers = await asyncio.gather(
        *(
            _positions_at(broker, node_id, indexes, topics, closed)
            for node_id, indexes in (await _coordinators(broker)).items()
        )
    )
    for answer in answers:
        for topic, groups in answer.items():
            for group_id, offsets in groups.items():
                for index, offset in offsets.items():
                    add(found, TopicPartition(topic, index), group_id, offset)
    return found


async def _coordinators(broker: Broker) -> dict[int, list[int]]:
    """The partitions of `__consumer_offsets` by the node that leads them."""
    topic = broker.controller.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        # That we know of none does not mean that there is none. Let the controller create it, or know better.
        try:
            await broker.groups.ensure_topic()
        except ApiError as error:
            raise PositionsUnknownError(f"there is no {OFFSETS_TOPIC}: {error}") from error
        raise PositionsUnknownError(f"{OFFSETS_TOPIC} is new")
    leaders: dict[int, list[int]] = {}
    for index, partition in topic.partitions.items():
        if partition.leader == NO_LEADER:
            raise PositionsUnknownError(f"{OFFSETS_TOPIC}-{index} has no leader")
        leaders.setdefault(partition.leader, []).append(index)
    return leaders


async def _positions_at(
    broker: Broker, node_id: int, indexes: list[int], topics: Collection[str], closed: bool
) -> Positions:
    try:
        if node_id == broker.config.node_id:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await positions_here(broker, indexes, topics, topics if closed else ())
        answer = await broker.peers.ask(
            node_id, Lane.POSITIONS, *POSITIONS, _question(indexes, topics, closed), timeout_s=ANSWER_S_MAX
        )
        return _read(answer)
    except TimeoutError as error:
        raise PositionsUnknownError("this node cannot write down that it coordinates") from error
    except (ApiError, PeerError, DecodeError) as error:
        raise PositionsUnknownError(f"node {node_id}: {error}") from error


async def positions_here(
    broker: Broker, indexes: Iterable[int], topics: Collection[str], closed: Iterable[str] = ()
) -> Positions:
    """The positions of the groups that live in these partitions of `__consumer_offsets`.

    Raises ApiError, also if one of the `closed` topics is not closed here yet.
    """
    for topic in closed:
        if not broker.controller.topic_config(topic).is_closed:
            raise ApiError(ErrorCode.coordinator_load_in_progress, f"topic {topic} is not closed")
    shards = {index: _shard(broker, index) for index in indexes}
    await asyncio.gather(*(shard.confirm() for shard in shards.values()))
    for index, shard in shards.items():
        if _shard(broker, index) is not shard:
            raise ApiError(ErrorCode.not_coordinator)
        shard.check_ready()
    cores = [shard.core for shard in shards.values()]
    return positions_of((group for core in cores for group in (*core.groups.values(), *core.leaving)), topics)


def _shard(broker: Broker, index: int) -> GroupShard:
    shard = broker.groups.maybe_shard(index)
    if shard is None:
        raise ApiError(ErrorCode.not_coordinator)
    return shard


def _question(indexes: list[int], topics: Collection[str], closed: bool) -> dict[str, Any]:
    wanted = [{"name": OFFSETS_TOPIC, "partition_indexes": indexes}]
    mark = {"partition_indexes": [0]} if closed else {}
    named = ({"name": name, **mark} for name in sorted(topics))
    return {"groups": [{"group_id": "", "topics": [*wanted, *named]}]}


def _read(answer: Any) -> Positions:
    found: Positions = {}
    for group in answer.groups:
        if group.error_code is not ErrorCode.none:
            raise ApiError(group.error_code)
        for topic in group.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                add(found, where, group.group_id, each.committed_offset)
    return found
