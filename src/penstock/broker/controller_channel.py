"""The way from a broker to the active controller, be it this very node or another one.

A request that changes the metadata is sent on as it came. What a broker asks for itself has methods here. No
controller is waited for longer than a few seconds: elections take one or two, then the client should hear.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.controller.active import HeartbeatReply
from penstock.metadata.alterations import Alteration, Operation, ResourceAlteration
from penstock.metadata.assignments import NewTopic
from penstock.metadata.image import ConfigResource, ResourceType
from penstock.metadata.partition_changes import IsrOutcome
from penstock.metadata.topics import TopicOutcome, TopicReference
from penstock.peers.connection import PeerDownError, PeerError
from penstock.peers.peers import Lane
from penstock.types import ApiError, ErrorCode
from penstock.wire.broker_heartbeat import write_request as write_heartbeat
from penstock.wire.primitives import skip_tagged_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from penstock.config import NodeConfig
    from penstock.controller.controller import Controller
    from penstock.metadata.brokers import Registration
    from penstock.metadata.image import TopicImage
    from penstock.metadata.partition_changes import IsrChange
    from penstock.peers.peers import Peers
    from penstock.wire.broker_heartbeat import HeartbeatRequest
    from penstock.wire.shapes import Body

log = logging.getLogger(__name__)

CREATE_TOPICS = (19, 7)
DELETE_TOPICS = (20, 6)
INCREMENTAL_ALTER_CONFIGS = (44, 1)
ALTER_PARTITION = (56, 3)
REGISTRATION = (62, 4)
HEARTBEAT = (63, 1)
ALLOCATE_PRODUCER_IDS = (67, 0)
LOOK_AGAIN_S: Final = 0.05
HEARTBEAT_S_MAX: Final = 1.0


class ControllerChannel:
    def __init__(self, controller: Controller, config: NodeConfig, peers: Peers) -> None:
        self._controller = controller
        self._config = config
        self._peers = peers
        self._wait_s = config.cluster.controller_request_ms_max / 1000

    @property
    def is_local(self) -> bool:
        return self._controller.is_active

    async def forward(self, api_key: int, version: int, is_flexible: bool, body: memoryview) -> memoryview:
        """Send on a client's request; the body of the answer."""

        async def send(node_id: int) -> memoryview:
            return await self._peers.forward(
                node_id, api_key, version, is_flexible, body, timeout_s=self._wait_s
            )

        answer: memoryview = await self._with_controller(send)
        return answer[skip_tagged_fields(answer, 0) :] if is_flexible else answer

    async def _ask(self, api: tuple[int, int], body: Body | bytes, lane: Lane, timeout_s: float) -> Any:
        async def send(node_id: int) -> Any:
            return await self._peers.ask(node_id, lane, *api, body, timeout_s=timeout_s)

        return await self._with_controller(send)

    async def _with_controller(self, send: Any) -> Any:
        """Find the controller and send; again if nobody was there to get it."""
        deadline = asyncio.get_running_loop().time() + self._wait_s
        reason = "no controller can be reached"
        while asyncio.get_running_loop().time() < deadline:
            node_id = self._controller.leader_id
            if node_id is not None and node_id != self._config.node_id:
                try:
                    return await send(node_id)
                except PeerDownError as error:
                    reason = f"no controller can be reached: {error}"
                except PeerError as error:
                    raise ApiError(ErrorCode.request_timed_out, f"the controller: {error}") from error
            elif self._controller.is_active:
                raise ApiError(ErrorCode.not_controller, "the controller has changed; try again")
            await asyncio.sleep(LOOK_AGAIN_S)
        raise ApiError(ErrorCode.request_timed_out, reason)

    # What a broker asks for itself

    async def register(self, registration: Registration, cluster_id: str | None) -> int:
        if self.is_local:
            return await self._controller.active.register(registration)
        body = {
            "broker_id": registration.broker_id,
            "cluster_id": cluster_id or "",
            "incarnation_id": registration.incarnation,
            "listeners": [
                {
                    "name": "INTERNAL",
                    "host": registration.host,
                    "port": registration.port,
                    "security_protocol": 0,
                }
            ],
            "rack": registration.rack,
            "log_dirs": [registration.storage_id],
            "previous_broker_epoch": -2 if registration.is_damaged else 0 if registration.is_clean else -1,
        }
        answer = await self._ask(REGISTRATION, body, Lane.CONTROL, self._wait_s)
        check(answer.error_code, "registration")
        return int(answer.broker_epoch)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatReply:
        if self.is_local:
            return self._controller.active.heartbeat(request)
        answer = await self._ask(HEARTBEAT, write_heartbeat(request), Lane.HEARTBEATS, HEARTBEAT_S_MAX)
        check(answer.error_code, "heartbeat")
        return HeartbeatReply(answer.is_caught_up, answer.is_fenced, answer.should_shut_down)

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> list[IsrOutcome]:
        if self.is_local:
            return await self._controller.alter_partitions(broker_id, broker_epoch, changes)
        topics: dict[Any, list[Body]] = {}
        for change in changes:
            topics.setdefault(change.topic_id, []).append(
                {
                    "partition_index": change.partition,
                    "leader_epoch": change.leader_epoch,
                    "partition_epoch": change.partition_epoch,
                    "new_isr_with_epochs": [
                        {"broker_id": member, "broker_epoch": epoch} for member, epoch in change.isr
                    ],
                }
            )
        body = {
            "broker_id": broker_id,
            "broker_epoch": broker_epoch,
            "topics": [{"topic_id": key, "partitions": found} for key, found in topics.items()],
        }
        answer = await self._ask(ALTER_PARTITION, body, Lane.CONTROL, self._wait_s)
        check(answer.error_code, "change of in-sync sets")
        return [
            IsrOutcome(
                topic.topic_id,
                partition.partition_index,
                None if partition.error_code is ErrorCode.none else ApiError(partition.error_code),
            )
            for topic in answer.topics
            for partition in topic.partitions
        ]

    async def allocate_producer_ids(self, broker_epoch: int, count: int) -> range:
        if self.is_local:
            return await self._controller.allocate_producer_ids(self._config.node_id, count)
        body = {"broker_id": self._config.node_id, "broker_epoch": broker_epoch}
        answer = await self._ask(ALLOCATE_PRODUCER_IDS, body, Lane.CONTROL, self._wait_s)
        check(answer.error_code, "producer ids")
        return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)

    async def create_topics(
        self, new_topics: Sequence[NewTopic], *, allow_internal: bool = False
    ) -> list[TopicOutcome]:
        """Topics that the broker needs, or that a client named and that are created for it."""
        if self.is_local:
            return await self._controller.create_topics(new_topics, allow_internal=allow_internal)
        body = {
            "topics": [
                {
                    "name": topic.name,
                    "num_partitions": topic.partitions,
                    "replication_factor": topic.replication_factor,
                    "configs": [{"name": name, "value": value} for name, value in topic.configs],
                }
                for topic in new_topics
            ],
        }
        answer = await self._ask(CREATE_TOPICS, body, Lane.CONTROL, self._wait_s)
        outcomes = [
            TopicOutcome(
                topic.name,
                topic.topic_id,
                None
                if topic.error_code is ErrorCode.none
                else ApiError(topic.error_code, topic.error_message),
            )
            for topic in answer.topics
        ]
        created = [outcome.name for outcome in outcomes if outcome.error is None]
        await self._until_known(created)
        return outcomes

    async def set_topic_config(self, topic: str, name: str, value: str) -> None:
        """Returns when this node knows it. Raises ApiError."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        if self.is_local:
            wanted = ResourceAlteration(resource, [Alteration(name, Operation.SET, value)])
            (outcome,) = await self._controller.incremental_alter_configs([wanted])
            if outcome.error is not None:
                raise outcome.error
        else:
            change = {"name": name, "config_operation": Operation.SET, "value": value}
            asked = {"resource_type": ResourceType.TOPIC, "resource_name": topic, "configs": [change]}
            body = {"resources": [asked], "validate_only": False}
            answer = await self._ask(INCREMENTAL_ALTER_CONFIGS, body, Lane.CONTROL, self._wait_s)
            check(answer.responses[0].error_code, f"a config of topic {topic}")
        await self._until(lambda: self._controller.image.configs(*resource).get(name) == value)

    async def delete_topic(self, topic_id: UUID) -> None:
        """It is no failure if it is gone already. Raises ApiError."""
        if self.is_local:
            (outcome,) = await self._controller.delete_topics([TopicReference(topic_id=topic_id)])
            code = ErrorCode.none if outcome.error is None else outcome.error.code
        else:
            body = {"topics": [{"name": None, "topic_id": topic_id}]}
            answer = await self._ask(DELETE_TOPICS, body, Lane.CONTROL, self._wait_s)
            code = answer.responses[0].error_code
        if code is not ErrorCode.unknown_topic_id:
            check(code, f"the deletion of the topic {topic_id}")

    async def ensure_internal_topic(
        self, name: str, partitions: int, configs: Mapping[str, str]
    ) -> TopicImage:
        """The internal topic `name`, created now if it is not there."""
        if name not in self._controller.image.topics:
            new_topic = NewTopic(name, partitions, configs=tuple(configs.items()))
            (outcome,) = await self.create_topics([new_topic], allow_internal=True)
            if outcome.error is not None and outcome.error.code is not ErrorCode.topic_already_exists:
                raise outcome.error
            await self._until_known([name])
        return self._controller.image.topics[name]

    async def _until_known(self, names: Sequence[str | None]) -> None:
        await self._until(lambda: all(name in self._controller.image.topics for name in names))

    async def _until(self, is_known: Callable[[], bool]) -> None:
        """The controller is ahead of us: wait until our own copy of the log has it."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self._controller.until(is_known)
        except TimeoutError as error:
            raise ApiError(ErrorCode.request_timed_out, "the metadata do not arrive") from error


def check(code: ErrorCode, what: str) -> None:
    if code is not ErrorCode.none:
        raise ApiError(code, f"{what}: {code.name}")
