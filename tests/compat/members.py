"""Members of a consumer group, each in a thread of its own, for every client.

A member polls, processes, commits, and polls again. What it received and what it committed goes into a
`Ledger`, which knows when a message comes a second time after its commit: the promise that consumer groups
make across any joining and leaving.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioKafkaRange
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

Place = tuple[int, int]
"""(partition, offset)."""

DEADLINE_SECONDS = 30.0
POLL_SECONDS = 0.1
SESSION_MS, HEARTBEAT_MS = 40_000, 300
COMMIT_REFUSED = {
    confluent_kafka.KafkaError.ILLEGAL_GENERATION,
    confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS,
    confluent_kafka.KafkaError.UNKNOWN_MEMBER_ID,
    confluent_kafka.KafkaError._NO_OFFSET,
}


class Ledger:
    """All that the members of a group received and committed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.committed: set[Place] = set()
        self.repeated: list[Place] = []
        """Delivered again after their commit: there must be none."""

    def received(self, places: Iterable[Place]) -> None:
        with self._lock:
            self.repeated += [place for place in places if place in self.committed]

    def commit(self, places: Iterable[Place]) -> None:
        with self._lock:
            self.committed.update(places)


class Member:
    """One member; subclasses say how their client does it."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        ledger: Ledger,
        *,
        cooperative: bool,
        instance: str | None,
    ) -> None:
        self.bootstrap, self.topic, self.group, self.ledger = bootstrap, topic, group, ledger
        self.cooperative, self.instance = cooperative, instance
        self.assignment: frozenset[int] = frozenset()
        self.rebalances = 0
        self.error: BaseException | None = None
        self.refused: list[Place] = []
        """Received, and their commit was refused: as long as their partitions stay with this member, nobody
        is given them again, and it has to commit them later."""
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=f"member of {group}")
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error  # raised where the test waits for this member

    def _run(self) -> None:
        raise NotImplementedError

    def revoked(self, partitions: Iterable[int]) -> None:
        gone = set(partitions)
        self.refused = [place for place in self.refused if place[0] not in gone]

    def leave(self) -> None:
        """Closes the client as its users do, which a member without instance id says to the group."""
        self._leave.set()
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive(), "a member that does not end"
        assert self.error is None, self.error


class ConfluentMember(Member):
    def _run(self) -> None:
        config = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "cooperative-sticky" if self.cooperative else "range",
        }
        if self.instance:
            config["group.instance.id"] = self.instance
        consumer = confluent_kafka.Consumer(config)
        consumer.subscribe([self.topic], on_assign=self._count, on_revoke=self._give_up)
        try:
            while not self._leave.is_set():
                messages = consumer.consume(100, POLL_SECONDS)
                self.assignment = frozenset(part.partition for part in consumer.assignment())
                self._process(consumer, messages)
        finally:
            consumer.close()

    def _count(self, *_: object) -> None:
        self.rebalances += 1

    def _give_up(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.rebalances += 1
        self.revoked(part.partition for part in partitions)

    def _process(self, consumer: confluent_kafka.Consumer, messages: list[confluent_kafka.Message]) -> None:
        for message in messages:
            assert message.error() is None, message.error()
        new = [(message.partition(), message.offset()) for message in messages]
        self.ledger.received(new)
        places = self.refused + new
        if not places:
            return
        ends: dict[int, int] = {}
        for partition, offset in places:
            ends[partition] = offset + 1
        offsets = [confluent_kafka.TopicPartition(self.topic, part, end) for part, end in ends.items()]
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in COMMIT_REFUSED:
                raise
            self.refused = places
        else:
            self.refused = []
            self.ledger.commit(places)


class KafkaPythonMember(Member):
    def _run(self) -> None:
        assignor = CooperativeStickyAssignor if self.cooperative else RangePartitionAssignor
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            # A leader that has not heard of the topic yet assigns nothing, and looks again only then.
            metadata_max_age_ms=500,
            partition_assignment_strategy=[assignor],
        )
        consumer.subscribe([self.topic], listener=_Listener(self))
        try:
            while not self._leave.is_set():
                batches = consumer.poll(timeout_ms=int(POLL_SECONDS * 1_000))
                self.assignment = frozenset(part.partition for part in consumer.assignment())
                new = [(m.partition, m.offset) for messages in batches.values() for m in messages]
                self.ledger.received(new)
                places = self.refused + new
                if not places:
                    continue
                try:
                    consumer.commit()
                except (kafka_errors.CommitFailedError, kafka_errors.RebalanceInProgressError):
                    self.refused = places
                    continue
                self.refused = []
                self.ledger.commit(places)
        finally:
            consumer.close()


class _Listener(kafka.ConsumerRebalanceListener):
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: Iterable[kafka.TopicPartition]) -> None:
        self._member.rebalances += 1
        self._member.revoked(part.partition for part in revoked)

    def on_partitions_assigned(self, assigned: object) -> None:
        self._member.rebalances += 1


class AioKafkaMember(Member):
    def _run(self) -> None:
        assert not self.cooperative, "aiokafka has no cooperative assignor"
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[AioKafkaRange],
        )
        # Rebalances run in the background there: a listener makes them wait for the end of a round.
        in_round = asyncio.Lock()
        consumer.subscribe([self.topic], listener=_AsyncListener(self, in_round))
        async with consumer:
            while not self._leave.is_set():
                async with in_round:
                    await self._round(consumer)
                await asyncio.sleep(0)

    async def _round(self, consumer: aiokafka.AIOKafkaConsumer) -> None:
        poll = consumer.getmany(timeout_ms=int(POLL_SECONDS * 1_000))
        try:
            # Once a rebalance has begun it waits for its end, whatever the timeout; and that waits for us.
            batches = await asyncio.wait_for(poll, POLL_SECONDS * 5)
        except TimeoutError:
            return
        self.assignment = frozenset(part.partition for part in consumer.assignment())
        places = [(m.partition, m.offset) for messages in batches.values() for m in messages]
        if not places:
            return
        self.ledger.received(places)
        try:
            await consumer.commit()
        except aiokafka.errors.CommitFailedError:
            return
        self.ledger.commit(places)


class _AsyncListener(aiokafka.ConsumerRebalanceListener):
    def __init__(self, member: Member, in_round: asyncio.Lock) -> None:
        self._member, self._in_round = member, in_round

    async def on_partitions_revoked(self, revoked: object) -> None:
        self._member.rebalances += 1
        async with self._in_round:
            pass

    async def on_partitions_assigned(self, assigned: object) -> None:
        self._member.rebalances += 1


MEMBERS: dict[str, type[Member]] = {
    "confluent-kafka": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AioKafkaMember,
}


class Group:
    """The members of one group over one topic; leaving is done for them at the end."""

    def __init__(self, bootstrap: str, topic: str, group: str, partitions: int, **options: Any) -> None:
        self._arguments = (bootstrap, topic, group)
        self._partitions = frozenset(range(partitions))
        self._options = options
        self.ledger = Ledger()
        self.members: list[Member] = []

    def join(self, client: str, *, instance: str | None = None, cooperative: bool = False) -> Member:
        member = MEMBERS[client](*self._arguments, self.ledger, cooperative=cooperative, instance=instance)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        member.leave()

    def wait_balanced(self) -> None:
        """Until every partition has one owner, and every member some partition."""

        def balanced() -> bool:
            for member in self.members:
                assert member.error is None, member.error
            owned = [partition for member in self.members for partition in member.assignment]
            return sorted(owned) == sorted(self._partitions) and all(m.assignment for m in self.members)

        wait_until(balanced, f"balance of {len(self.members)} members", timeout_s=DEADLINE_SECONDS)

    def wait_committed(self, places: set[Place]) -> None:
        wait_until(
            lambda: places <= self.ledger.committed,
            f"commit of {len(places)} messages",
            timeout_s=DEADLINE_SECONDS,
        )
        assert not self.ledger.repeated

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member._leave.set()
        for member in list(self.members):
            self.leave(member)
