"""What clients count on after the broker was stopped, or killed, and started again."""

from __future__ import annotations

import gc
import time
import warnings
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from penstock.types import ErrorCode
from tests.compat.members import Group
from tests.support.raw import METADATA, RawClient, all_records, make_batch, read_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.broker import BrokerProcess

# kafka-python leaves sockets behind whose connection was refused; only the collector closes them.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

TIMEOUT = 20.0


@pytest.fixture(autouse=True)
def collect_sockets() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


both_ways = pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])


@both_ways
def test_messages_topics_configs_and_ids(broker: BrokerProcess, topic: str, clean: bool) -> None:
    def topic_id(client: RawClient) -> object:
        return client.request(METADATA, 12, {"topics": [{"name": topic}]}).topics[0].topic_id

    with RawClient(broker.bootstrap) as client:
        client.create_topic(topic, partitions=3, configs={"max.message.bytes": "5000"})
        client.produce(topic, make_batch([b"a", b"b"]), partition=1)
        before = topic_id(client)
    broker.restart(clean=clean)
    with RawClient(broker.bootstrap) as client:
        assert topic_id(client) == before
        [(_, batch)] = read_all(client, topic, partition=1)
        assert [record.value for record in all_records(batch)] == [b"a", b"b"]
        assert client.produce(topic, make_batch([b"c"]), partition=1).base_offset == 2
        over = client.produce(topic, make_batch([bytes(6_000)]))
        assert over.error_code is ErrorCode.message_too_large
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    [future] = admin.describe_configs([ConfigResource("topic", topic)]).values()
    assert future.result(TIMEOUT)["max.message.bytes"].value == "5000"


@both_ways
def test_committed_offsets_and_metadata(broker: BrokerProcess, topic: str, group: str, clean: bool) -> None:
    with RawClient(broker.bootstrap) as client:
        client.create_topic(topic, partitions=2)
        client.produce(topic, make_batch([b"a", b"b", b"c"]))
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(config)
    for offset in (1, 2):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset, f"note {offset}")], asynchronous=False)
    consumer.close()
    broker.restart(clean=clean)
    again = Consumer(config)
    [committed] = again.committed([TopicPartition(topic, 0)], TIMEOUT)
    assert (committed.offset, committed.metadata) == (2, "note 2")
    again.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT
    while (message := again.poll(0.2)) is None:
        assert time.monotonic() < deadline
    assert (message.error(), message.value()) == (None, b"c")
    again.close()


@both_ways
def test_idempotent_state(broker: BrokerProcess, topic: str, clean: bool) -> None:
    """The duplicate of a batch from before the restart is still known as one."""
    with RawClient(broker.bootstrap) as client:
        client.create_topic(topic)
        producer_id, _ = client.init_producer_id()
        batches = [
            make_batch([b"%d" % n], producer_id=producer_id, producer_epoch=0, base_sequence=n)
            for n in range(8)
        ]
        for batch in batches[:6]:
            client.produce(topic, batch)
    broker.restart(clean=clean)
    with RawClient(broker.bootstrap) as client:
        for sequence in range(1, 6):
            answer = client.produce(topic, batches[sequence])
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, sequence)
        gap = client.produce(topic, batches[7])
        assert gap.error_code is ErrorCode.out_of_order_sequence_number
        assert client.produce(topic, batches[6]).base_offset == 6
        assert client.init_producer_id()[0] > producer_id
        assert client.end_offset(topic) == 7


@both_ways
def test_a_producer_goes_on_by_itself(broker: BrokerProcess, topic: str, clean: bool) -> None:
    """librdkafka, idempotent, in the middle of its work: each message once and in order."""
    errors = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1})

    def produce(numbers: range) -> None:
        for number in numbers:
            producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: errors.append(error))
            producer.poll(0)

    produce(range(5_000))
    broker.restart(clean=clean)
    produce(range(5_000, 10_000))
    assert producer.flush(TIMEOUT) == 0
    assert errors == [None] * 10_000
    with RawClient(broker.bootstrap) as client:
        values = [record.value for _, batch in read_all(client, topic) for record in all_records(batch)]
    assert values == [b"%d" % number for number in range(10_000)]


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_members_go_on_by_themselves(broker: BrokerProcess, topic: str, group: str, client: str) -> None:
    with RawClient(broker.bootstrap) as raw:
        raw.create_topic(topic, partitions=4)
        for partition in range(4):
            raw.produce(topic, make_batch([b"before"] * 3), partition=partition)
    with Group(broker.bootstrap, topic, group, 4) as members:
        members.join(client)
        members.join(client)
        members.wait_balanced()
        members.wait_committed({(partition, offset) for partition in range(4) for offset in range(3)})
        broker.restart(clean=False)
        with RawClient(broker.bootstrap) as raw:
            for partition in range(4):
                raw.produce(topic, make_batch([b"after"] * 3), partition=partition)
        members.wait_committed({(partition, offset) for partition in range(4) for offset in range(6)})
        members.wait_balanced()


def test_deleted_topics_and_records_stay_deleted(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with RawClient(broker.bootstrap) as client:
        client.create_topic(topic)
        client.create_topic(f"{topic}-gone")
        client.produce(topic, make_batch([b"a", b"b", b"c"]))
        client.produce(f"{topic}-gone", make_batch([b"x"]))
    for future in admin.delete_topics([f"{topic}-gone"]).values():
        future.result(TIMEOUT)
    for future in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result(TIMEOUT)
    broker.restart(clean=False)
    with RawClient(broker.bootstrap) as client:
        assert client.list_offset(topic, -2).offset == 2
        unknown = client.list_offset(f"{topic}-gone", -1)
        assert unknown.error_code is ErrorCode.unknown_topic_or_partition
        client.create_topic(f"{topic}-gone")
        assert client.end_offset(f"{topic}-gone") == 0
