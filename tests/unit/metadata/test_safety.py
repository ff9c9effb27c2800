"""Any history of decisions: what always holds of the partitions, and that acknowledged data stays.

Beside the image the test keeps the log of each replica. A write is acknowledged when there are enough
in-sync replicas and all of them have it; a leader proposes any in-sync set, in which those that are alive
have what it has, and those that are not must be refused. What is lost with the last in-sync replicas is lost:
but nothing that one of those has who are waited for, or who live.
"""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.metadata.balancing import Balancer, BalancerLimits
from penstock.metadata.brokers import (
    Registration,
    fence_broker,
    register_broker,
    stop_broker,
    unfence_broker,
)
from penstock.metadata.elections import ElectionType, elect_leaders
from penstock.metadata.events import events_of
from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from penstock.metadata.load import BrokerLoad, PartitionLoad
from penstock.metadata.moves import records_of
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.reassignments import Reassignment, alter_reassignments, decommission
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord, decode, encode
from penstock.metadata.recovery import ReplicaEnd, leaderless, recover
from penstock.metadata.snapshot import snapshot_records
from penstock.replication.divergence import LogEnd
from penstock.types import ApiError, TopicPartition
from tests.support.examples import HISTORIES
from tests.unit.metadata.builders import apply, cluster, with_topic

BROKERS = 5
BROKER = st.integers(1, BROKERS)
REPLICAS = st.lists(BROKER, min_size=1, max_size=4, unique=True).map(tuple)
TOPICS = {"one": (1, (2,)), "two": (1, (1, 2)), "three": (2, (3, 1, 2)), "four": (3, (2, 3, 4, 5))}
TOPIC = st.sampled_from(sorted(TOPICS))
Log = tuple[tuple[int, int], ...]
"""Of each record the epoch and a number of its own."""


class Decisions(RuleBasedStateMachine):
    image: MetadataImage

    @initialize()
    def start(self) -> None:
        self.image = cluster(BROKERS)
        for number, (name, (_, replicas)) in enumerate(TOPICS.items(), start=1):
            self.image = with_topic(self.image, name, topic_id=number, replicas=replicas)
        self.epoch = 0
        self.written = 0
        self.logs: defaultdict[tuple[str, int], Log] = defaultdict(tuple)
        self.acknowledged: defaultdict[str, Log] = defaultdict(tuple)

    def minimum(self, topic: str) -> int:
        return TOPICS[topic][0]

    def write(self, records: list[MetadataRecord], *, lost: int | None = None) -> None:
        """Apply a batch and compare each partition before and after."""
        before = self.image
        self.image, _ = apply(before, [decode(encode(record)) for record in records])
        for event in events_of(before, records):
            event.as_json()
        changed = [record for record in records if isinstance(record, PartitionChangeRecord)]
        assert len({(record.topic_id, record.partition) for record in changed}) == len(changed)
        for name, topic in self.image.topics.items():
            old, new = before.topics[name].partitions[0], topic.partitions[0]
            self.check_epochs(old, new)
            left = set(old.isr) - set(new.isr)
            has_moved = set(new.isr) == set(new.replicas)  # to fewer replicas than the minimum
            if left and len(new.isr) < self.minimum(name) and not has_moved:
                assert left == {lost}

    @staticmethod
    def check_epochs(old: PartitionImage, new: PartitionImage) -> None:
        has_lost_a_replica = not set(old.replicas) <= set(new.replicas)
        assert new.leader_epoch - old.leader_epoch == (new.leader != old.leader or has_lost_a_replica)
        assert new.partition_epoch - old.partition_epoch == (new != old)

    @rule(broker_id=BROKER)
    def fence(self, broker_id: int) -> None:
        self.write(fence_broker(self.image, broker_id, "test", self.minimum))

    @rule(broker_id=BROKER)
    def unfence(self, broker_id: int) -> None:
        self.write(unfence_broker(self.image, broker_id, self.minimum))

    @rule(broker_id=BROKER)
    def stop(self, broker_id: int) -> None:
        self.write(stop_broker(self.image, broker_id, self.minimum))

    @rule(broker_id=BROKER, fate=st.sampled_from(["clean", "unclean", "wiped"]), lost=st.integers(0, 2))
    def register(self, broker_id: int, fate: str, lost: int) -> None:
        self.epoch += 1
        storage_id = self.image.brokers[broker_id].storage_id
        if fate == "wiped":
            storage_id = UUID(int=9000 + self.epoch)
        registration = Registration(
            broker_id, UUID(int=self.epoch), storage_id, "localhost", 9092, None, fate != "unclean"
        )
        records, epoch = register_broker(
            self.image, registration, broker_epoch=self.epoch, is_alive=False, min_insync=self.minimum
        )
        assert epoch == self.epoch
        for name in TOPICS:
            kept = len(self.logs[name, broker_id]) - lost
            if fate == "wiped":
                self.logs[name, broker_id] = ()
            elif fate == "unclean":
                self.logs[name, broker_id] = self.logs[name, broker_id][: max(0, kept)]
        self.write(records, lost=None if fate == "clean" else broker_id)
        assert self.image.brokers[broker_id].fenced
        assert all(topic.partitions[0].leader != broker_id for topic in self.image.topics.values())

    @rule(topic=TOPIC, wanted=st.sets(BROKER))
    def propose(self, topic: str, wanted: set[int]) -> None:
        """The leader has some catch up with it and wants them for its set."""
        partition = self.image.topics[topic].partitions[0]
        leader = partition.leader
        if leader == NO_LEADER:
            return
        serving = {broker.id for broker in self.image.live_brokers()}
        for follower in wanted & serving & set(partition.replicas):
            self.logs[topic, follower] = self.logs[topic, leader]
        members = tuple(
            (each, self.image.brokers[each].epoch)
            for each in partition.replicas
            if each == leader or each in wanted
        )
        change = IsrChange(
            self.image.topics[topic].topic_id, 0, partition.leader_epoch, partition.partition_epoch, members
        )
        records, (outcome,) = alter_partitions(
            self.image, leader, self.image.brokers[leader].epoch, [change], self.minimum
        )
        self.write(records)
        if outcome.state is not None:
            assert outcome.state == self.image.topics[topic].partitions[0]

    @rule(topic=TOPIC)
    def produce(self, topic: str) -> None:
        partition = self.image.topics[topic].partitions[0]
        serving = {broker.id for broker in self.image.live_brokers()}
        if partition.leader == NO_LEADER:
            return
        self.written += 1
        log = (*self.logs[topic, partition.leader], (partition.leader_epoch, self.written))
        for member in set(partition.isr) & serving:
            self.logs[topic, member] = log
        if len(partition.isr) >= self.minimum(topic) and serving.issuperset(partition.isr):
            self.acknowledged[topic] = log

    @rule()
    def elect_preferred(self) -> None:
        self.write(elect_leaders(self.image, None, 0)[0])

    def end_of(self, topic: str, broker_id: int) -> LogEnd:
        log = self.logs[topic, broker_id]
        return LogEnd(log[-1][0] if log else -1, len(log))

    def ends(self, topic: str, silent: set[int]) -> dict[int, ReplicaEnd]:
        leader_epoch = self.image.topics[topic].partitions[0].leader_epoch
        return {
            broker.id: ReplicaEnd(broker.epoch, leader_epoch, self.end_of(topic, broker.id))
            for broker in self.image.live_brokers()
            if broker.id not in silent
        }

    def accept_loss(self, topic: str, waited_for: set[int]) -> None:
        """Of what the new leader lacks, nobody has anything who was waited for."""
        log = self.logs[topic, self.image.topics[topic].partitions[0].leader]
        acknowledged = self.acknowledged[topic]
        kept = 0
        while acknowledged[: kept + 1] == log[: kept + 1] and kept < len(acknowledged):
            kept += 1
        self.acknowledged[topic] = acknowledged[:kept]
        if kept < len(acknowledged):
            for other in waited_for:
                assert self.logs[topic, other][: kept + 1] != acknowledged[: kept + 1]

    @rule(silent=st.sets(BROKER))
    def recover(self, silent: set[int]) -> None:
        """Those do not answer in time."""
        before = self.image
        ends = {TopicPartition(name, 0): self.ends(name, silent) for name in TOPICS}
        self.write(recover(before, leaderless(before), ends))
        electable = {broker.id for broker in before.electable_brokers()}
        for name, topic in before.topics.items():
            partition = topic.partitions[0]
            if self.image.topics[name].partitions[0] != partition:
                asked = electable & set(partition.replicas)
                assert not partition.isr
                assert asked >= set(partition.last_isr)
                assert not asked & silent
                self.accept_loss(name, asked)

    @rule(topic=TOPIC, silent=st.sets(BROKER))
    def elect_unclean(self, topic: str, silent: set[int]) -> None:
        """Somebody consents to the loss."""
        partition = self.image.topics[topic].partitions[0]
        ends = self.ends(topic, silent)
        where = TopicPartition(topic, 0)
        records, (outcome,) = elect_leaders(self.image, [where], ElectionType.UNCLEAN, {where: ends})
        electable = {broker.id for broker in self.image.electable_brokers()}
        asked = electable & set(partition.replicas) - silent
        assert (outcome.error is None) == (partition.leader == NO_LEADER and bool(asked))
        if outcome.error is None:
            self.image, _ = apply(self.image, records)
            self.accept_loss(topic, asked)

    @rule(topic=TOPIC, replicas=st.none() | REPLICAS)
    def reassign(self, topic: str, replicas: tuple[int, ...] | None) -> None:
        records, _ = alter_reassignments(self.image, [Reassignment(topic, 0, replicas)], self.minimum)
        self.write(records)

    @rule(broker_id=BROKER)
    def decommission(self, broker_id: int) -> None:
        try:
            records, _ = decommission(self.image, broker_id, self.minimum)
        except ApiError:
            return
        self.write(records)

    @rule(busy=st.lists(st.sampled_from([0.0, 0.4, 0.65, 0.9]), min_size=BROKERS, max_size=BROKERS))
    def balance(self, busy: list[float]) -> None:
        """What is as it is has been so for long."""
        leads = {(topic.topic_id, 0): PartitionLoad(share=0.2) for topic in self.image.topics.values()}
        load = {number: BrokerLoad(each, partitions=leads) for number, each in enumerate(busy, 1)}
        balancer = Balancer(BalancerLimits())
        balancer.decide(self.image, load, 0)
        for move in balancer.decide(self.image, load, 100_000):
            self.write(records_of(self.image, move, self.minimum))

    @invariant()
    def partitions_make_sense(self) -> None:
        for topic in self.image.topics.values():
            partition = topic.partitions[0]
            replicas, isr = partition.replicas, partition.isr
            assert len(set(replicas)) == len(replicas)
            assert len(set(isr)) == len(isr)
            assert set(isr) | set(partition.last_isr) | set(partition.wiped) <= set(replicas)
            assert not set(isr) & set(partition.wiped)
            assert set(partition.adding) | set(partition.removing) <= set(replicas)
            assert set(partition.borrowed) <= set(replicas[1:])
            assert not set(partition.adding) & set(partition.removing)
            electable = {broker.id for broker in self.image.electable_brokers()}
            if partition.leader == NO_LEADER:
                assert not electable & set(isr)  # whoever can lead does
            else:
                assert partition.leader in isr
                assert not self.image.brokers[partition.leader].fenced

    @invariant()
    def every_member_of_the_set_has_what_was_acknowledged(self) -> None:
        for name, topic in self.image.topics.items():
            acknowledged = self.acknowledged[name]
            for member in topic.partitions[0].isr:
                assert self.logs[name, member][: len(acknowledged)] == acknowledged

    @invariant()
    def a_snapshot_adds_up_to_the_image(self) -> None:
        records = [decode(encode(record)) for record in snapshot_records(self.image)]
        assert apply(MetadataImage(), records)[0] == self.image


TestDecisions = Decisions.TestCase
TestDecisions.settings = settings(max_examples=HISTORIES, stateful_step_count=30)
