"""An idempotent producer whose every batch the test knows, for tests that compare logs byte by byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from tests.support.raw import RawClient, all_records, make_batch, read_all
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from tests.support.cluster import Cluster, NodeProcess

PATIENT_S_MAX = 30.0
VALUE_BYTES = 20_000
"""Of a record: far more than any answer without records."""
RETRIABLE = ("not_leader_or_follower", "not_enough_replicas", "leader_not_available", "request_timed_out")


class ExactProducer:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self.topic = topic
        self.acknowledged: dict[int, int] = {}
        """The offset of each number."""
        with RawClient(cluster.leader_of(topic).bootstrap) as client:
            self.producer_id, self.producer_epoch = client.init_producer_id()

    def batch(self, number: int) -> bytes:
        """One record, always the same for a number."""
        return make_batch(
            [value_of(number)],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=number,
        )

    def write(self, number: int, leader: NodeProcess) -> int:
        """The offset at which it is acknowledged; sent again for as long as that may help."""

        def attempt() -> Any:
            with RawClient(leader.bootstrap) as client:
                answer = client.produce(self.topic, self.batch(number))
            assert answer.error_code.name in ("none", *RETRIABLE), answer
            return answer if answer.error_code.name == "none" else None

        answer = wait_until(attempt, f"{number} is acknowledged", timeout_s=PATIENT_S_MAX)
        self.acknowledged[number] = answer.base_offset
        return int(answer.base_offset)

    def check(self, numbers: Iterable[int]) -> None:
        """What the topic holds is this, in this order, and where it was promised."""
        with RawClient(self._cluster.leader_of(self.topic).bootstrap) as client:
            wait_until(
                lambda: client.list_offset(self.topic, -1).error_code.name == "none",
                "the leader knows its end",
            )
            records = [record for _, batch in read_all(client, self.topic) for record in all_records(batch)]
        assert [record.value for record in records] == [value_of(number) for number in numbers]
        found = {number: record.offset for number, record in zip(numbers, records, strict=True)}
        assert self.acknowledged.items() <= found.items()


def value_of(number: int) -> bytes:
    return b"%08d" % number * (VALUE_BYTES // 8)


def create_topic_in_sync(cluster: Cluster, topic: str, **config: str) -> NodeProcess:
    """Three replicas; returns the leader once all are in sync."""
    client = admin(cluster.bootstrap)
    named = {name.replace("_", "."): value for name, value in config.items()}

    def is_created() -> bool:
        try:
            client.create_topics([NewTopic(topic, 1, 3, config=named)])[topic].result(PATIENT_S_MAX)
        except KafkaException as error:
            # Brokers that the test before left behind as fenced are on their way back.
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    wait_until(is_created, f"three brokers for {topic}")
    cluster.wait_healed([topic])
    return cluster.leader_of(topic)
