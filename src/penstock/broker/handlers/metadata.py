"""Metadata (3), versions 0–12: brokers, topics, and who leads which partition.

Which topics are meant: in version 0 an empty list means all; later null means all and an empty list none.
From version 10 on a topic may be asked for by its id. A topic that is asked for by name and does not exist
is created if the broker's configuration and the request (from version 4 on) allow it.

Authorized operations are listed when they are asked for (from version 8 on): all of them, as there is no
authorizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.answers import (
    ALL_CLUSTER_OPERATIONS,
    ALL_TOPIC_OPERATIONS,
    OPERATIONS_NOT_ASKED,
    endpoint_fields,
)
from penstock.metadata.assignments import NewTopic
from penstock.metadata.internal_topics import is_internal
from penstock.metadata.topic_names import problem_with
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic

    from penstock.broker.broker import Broker
    from penstock.broker.context import RequestContext
    from penstock.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
    from penstock.wire.shapes import Body

NULLABLE_NAMES_FROM = 12


@api(3, 0, 12)
async def metadata(request: MetadataRequest, context: RequestContext) -> Body:
    broker = context.broker
    # A node that is new, or has lost its disk, knows nothing yet, and would say that there are no topics.
    await broker.controller.until(lambda: bool(broker.controller.image.brokers))
    # One that was away would send clients to who led before.
    await broker.until_served()
    wanted = request.topics
    if wanted is None or (context.api_version == 0 and not wanted):
        image = broker.controller.image
        topics = _Topics(broker, image, request.include_topic_authorized_operations)
        listed = [topics.describe(topic) for topic in image.topics.values()]
    else:
        errors = await _create_missing(broker, request)
        image = broker.controller.image
        topics = _Topics(broker, image, request.include_topic_authorized_operations)
        listed = [topics.find(topic, errors) for topic in wanted]
    if context.api_version < NULLABLE_NAMES_FROM:
        for answer in listed:
            answer["name"] = answer["name"] or ""
    body: dict[str, Any] = {
        "brokers": [{"node_id": each.id, **endpoint_fields(each)} for each in _brokers(context, image)],
        "cluster_id": broker.cluster_id,
        "controller_id": broker.config.node_id,
        "topics": listed,
    }
    if getattr(context.raw, "include_cluster_authorized_operations", False):  # versions 8 to 10
        body["cluster_authorized_operations"] = ALL_CLUSTER_OPERATIONS
    return body


def _brokers(context: RequestContext, image: MetadataImage) -> Sequence[BrokerImage]:
    """Those alive, and to librdkafka those that were until a moment ago, see fencings.py; all of them while
    none is known to be, since librdkafka forgets whoever is not named here, and told of none has nobody left
    to ask, ever again."""
    every = sorted(image.brokers.values(), key=lambda each: each.id)
    is_recent = context.broker.fencings.is_recent if is_librdkafka(context) else _never
    return [each for each in every if not each.fenced or is_recent(each.id)] or every


def is_librdkafka(context: RequestContext) -> bool:
    """Or one of the clients that are built on it."""
    software = context.connection.client_software
    return "rdkafka" in software or software.startswith("confluent-kafka")


def _never(_broker_id: int) -> bool:
    return False


async def _create_missing(broker: Broker, request: MetadataRequest) -> dict[str, ErrorCode]:
    """Create the topics that are missing, if that is allowed; the errors of those that could not be."""
    if not (broker.config.auto_create_topics and request.allow_auto_topic_creation):
        return {}
    existing = broker.controller.image.topics
    names = {
        topic.name: None
        for topic in request.topics or ()
        if topic.name is not None and topic.topic_id is None and topic.name not in existing
    }
    missing = [NewTopic(name) for name in names if not is_internal(name) and problem_with(name) is None]
    if not missing:
        return {}
    try:
        outcomes = await broker.channel.create_topics(missing)
    except ApiError as error:
        return {topic.name: error.code for topic in missing}
    return {
        outcome.name: outcome.error.code
        for outcome in outcomes
        if outcome.name is not None and outcome.error is not None
    }


class _Topics:
    def __init__(self, broker: Broker, image: MetadataImage, with_operations: bool) -> None:
        self._image = image
        self._live = {each.id for each in image.live_brokers()}
        # A client that is told of a leader looks for no other. Whoever has just lost its leader asks at once,
        # perhaps before the controller has noticed; told that there is none it asks again a moment later.
        self._leading = {each for each in self._live if not broker.fetchers.has_just_lost(each)}
        self._operations = ALL_TOPIC_OPERATIONS if with_operations else OPERATIONS_NOT_ASKED

    def find(self, wanted: MetadataRequestTopic, errors: dict[str, ErrorCode]) -> dict[str, Any]:
        if wanted.topic_id is not None:
            topic = self._image.topic_by_id(wanted.topic_id)
            if topic is None:
                return _unknown(ErrorCode.unknown_topic_id, None, wanted.topic_id)
            return self.describe(topic)
        name = wanted.name or ""
        topic = self._image.topics.get(name)
        if topic is not None:
            return self.describe(topic)
        if problem_with(name) is not None:
            return _unknown(ErrorCode.invalid_topic_exception, name)
        return _unknown(errors.get(name, ErrorCode.unknown_topic_or_partition), name)

    def describe(self, topic: TopicImage) -> dict[str, Any]:
        live = self._live
        partitions = []
        for index, partition in topic.partitions.items():
            has_leader = partition.leader in self._leading
            partitions.append(
                {
                    "error_code": ErrorCode.none if has_leader else ErrorCode.leader_not_available,
                    "partition_index": index,
                    "leader_id": partition.leader if has_leader else -1,
                    "leader_epoch": partition.leader_epoch,
                    "replica_nodes": partition.replicas,
                    "isr_nodes": partition.isr,
                    "offline_replicas": _offline(partition, live),
                }
            )
        return {
            "error_code": ErrorCode.none,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": is_internal(topic.name),
            "partitions": partitions,
            "topic_authorized_operations": self._operations,
        }


def _offline(partition: PartitionImage, live: set[int]) -> Sequence[int]:
    if not partition.offline and live.issuperset(partition.replicas):
        return ()
    return tuple(each for each in partition.replicas if each not in live or each in partition.offline)


def _unknown(error_code: ErrorCode, name: str | None, topic_id: UUID | None = None) -> dict[str, Any]:
    return {"error_code": error_code, "name": name, "topic_id": topic_id, "partitions": ()}
