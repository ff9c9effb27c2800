"""The client library against a real broker, over both transports, blocking and with asyncio."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import TYPE_CHECKING

import pytest

from penstock import (
    AsyncConsumer,
    AsyncProducer,
    ClosedError,
    Consumer,
    ConsumerNotFoundError,
    Delivered,
    DisconnectedServerError,
    InvalidTopicError,
    MessageTooLargeError,
    NoMessageError,
    NotAuthorizedError,
    Producer,
    TopicNotFoundError,
)
from tests.support.broker import BrokerProcess
from tests.support.gateway import GatewayProcess
from tests.support.ports import free_port
from tests.support.topics import (
    add_partitions,
    admin,
    committed,
    create_topic,
    delete_records,
    delete_topic,
    fill,
)
from tests.support.transactions import TIMEOUT_S, send, transactional
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["kafka", "http"])
def address(request: pytest.FixtureRequest, bootstrap: str) -> str:
    if request.param == "kafka":
        return bootstrap
    gateway: GatewayProcess = request.getfixturevalue("shared_gateway")
    return gateway.url


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"{request.node.originalname}-{uuid.uuid4().hex[:8]}"


def read_all(consumer: Consumer, topic: str) -> list[str]:
    found = []
    while consumer.has_next(topic):
        found.append(consumer.get_next(topic))
    return found


def test_the_example_of_the_contract(address: str, topic: str, bootstrap: str) -> None:
    with Producer([topic], broker=address) as producer, Consumer([topic], broker=address) as consumer:
        assert not consumer.has_next(topic)
        assert consumer.size(topic) == 0
        with pytest.raises(NoMessageError):
            consumer.get_next(topic)
        sent = [producer.send(topic, f"message {number}") for number in range(10)]
        assert sent == [Delivered(topic, 0, number) for number in range(10)]
        for number in range(10):
            assert consumer.has_next(topic)
            assert consumer.size(topic) == 10 - number
            assert consumer.get_next(topic) == f"message {number}"
        assert not consumer.has_next(topic)
    found = admin(bootstrap).list_topics(timeout=10).topics[topic]
    assert len(found.partitions) == 1


def test_every_consumer_reads_from_the_beginning(address: str, topic: str) -> None:
    with Producer(topic, address) as producer:
        for text in ("a", "b"):
            producer.send(topic, text)
        for _ in range(2):
            with Consumer(topic, address) as consumer:
                assert read_all(consumer, topic) == ["a", "b"]


def test_topics_do_not_mix(address: str, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(3)]
    with Producer(names, address) as producer, Consumer(names, address) as consumer:
        for number in range(30):
            producer.send(names[number % 3], str(number))
        for place, name in enumerate(names):
            assert consumer.size(name) == 10
            assert read_all(consumer, name) == [str(number) for number in range(place, 30, 3)]
        with pytest.raises(TopicNotFoundError):
            producer.send(topic, "x")
        with pytest.raises(TopicNotFoundError):
            consumer.has_next(topic)


def test_messages_sent_while_others_are_read_are_found(address: str, topic: str) -> None:
    with Producer(topic, address) as producer, Consumer(topic, address) as consumer:
        for number in range(20):
            producer.send(topic, str(number))
            assert consumer.has_next(topic)
            assert consumer.get_next(topic) == str(number)
            assert not consumer.has_next(topic)


def test_size_counts_messages_and_not_what_transactions_leave(
    address: str, topic: str, bootstrap: str
) -> None:
    create_topic(bootstrap, topic, 2)
    writer = transactional(bootstrap, topic)

    def write(*values: bytes, partition: int, aborted: bool = False) -> None:
        writer.begin_transaction()
        send(writer, topic, *values, partition=partition)
        if aborted:
            writer.abort_transaction(TIMEOUT_S)
        else:
            writer.commit_transaction(TIMEOUT_S)

    write(b"a", b"b", b"c", partition=0)
    write(b"x", b"y", partition=0, aborted=True)
    write(b"d", partition=0)
    write(b"e", b"f", partition=1)
    with Consumer(topic, address) as consumer:
        # A commit is acknowledged before its markers are there, and readers see it.
        wait_until(lambda: consumer.size(topic) == 6, "all that was committed")
        for left in range(6, 0, -1):
            assert consumer.size(topic) == left
            consumer.get_next(topic)
        assert consumer.size(topic) == 0
        assert not consumer.has_next(topic)
        write(b"x", partition=0, aborted=True)
        assert not consumer.has_next(topic)
        assert consumer.size(topic) == 0
        write(b"g", partition=1)
        wait_until(lambda: consumer.has_next(topic), "the message of the last transaction")
        with Consumer(topic, address) as second:
            assert second.size(topic) == 7
            assert len(read_all(second, topic)) == 7
        with Consumer(topic, address, id=consumer.ids) as again:
            assert again.size(topic) == 1


@pytest.mark.parametrize("transport", ["kafka", "http"])
def test_size_does_not_count_what_compaction_removed(transport: str, tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text("compaction_check_ms = 200\n")
    with (
        BrokerProcess(tmp_path, "--config", str(config)) as broker,
        GatewayProcess(tmp_path, broker.bootstrap) as gateway,
    ):
        address = gateway.url if transport == "http" else broker.bootstrap
        often = {"cleanup_policy": "compact", "segment_bytes": "1000", "min_cleanable_dirty_ratio": "0.01"}
        create_topic(broker.bootstrap, "t", **often)
        # The gateway's endpoints have no keys.
        with Consumer("t", address) as consumer, Producer("t", broker.bootstrap) as producer:
            for number in range(100):
                producer.send("t", f"{number}", key=str(number % 3))
            counted = consumer.size("t")
            assert 3 <= counted <= 100
            wait_until(lambda: consumer.size("t") < 50, "what compaction left", timeout_s=30.0)

            def all_are_counted() -> bool:
                """Compaction may take some between the two."""
                with Consumer("t", address) as other:
                    left = other.size("t")
                    return left == len(read_all(other, "t"))

            wait_until(all_are_counted, "a size that is the number of messages", timeout_s=30.0)


def test_going_on_as_a_consumer(address: str, topic: str) -> None:
    with Producer(topic, address) as producer:
        for number in range(10):
            producer.send(topic, str(number))
    with Consumer(topic, address) as first:
        assert [first.get_next(topic) for _ in range(3)] == ["0", "1", "2"]
        number = first.id
        assert first.get_next(topic) == "3"
    with Consumer(topic, address, id=number) as second:
        assert second.id == number
        assert second.size(topic) == 6
        assert second.get_next(topic) == "4"
    with Consumer(topic, address, id=second.ids) as third:
        assert read_all(third, topic) == ["5", "6", "7", "8", "9"]
    with Consumer(topic, address, id=number) as fourth:
        assert not fourth.has_next(topic)


def test_an_id_that_is_asked_for_after_the_end(address: str, topic: str) -> None:
    with Producer(topic, address) as producer:
        for number in range(3):
            producer.send(topic, str(number))
    with Consumer(topic, address) as first:
        assert first.get_next(topic) == "0"
    with Consumer(topic, address, id=first.id) as second:
        assert second.get_next(topic) == "1"


def test_going_on_in_several_topics(address: str, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    with Producer(names, address) as producer:
        for name in names:
            for text in ("1", "2", "3"):
                producer.send(name, text)
    with Consumer(names, address) as first:
        assert first.get_next(names[0]) == "1"
        ids = first.ids
    with Consumer(names, address, id=ids) as second:
        assert [second.size(name) for name in names] == [2, 3]
        assert second.get_next(names[0]) == "2"


def test_odd_texts(address: str, topic: str) -> None:
    texts = ["", "naïve ✓ 🜚", "a\nb\0c", '{"json": [1, "2"]}', "x" * 500_000]
    with Producer(topic, address) as producer, Consumer(topic, address) as consumer:
        for text in texts:
            producer.send(topic, text)
        producer.send(topic, b"bytes")
        assert read_all(consumer, topic) == [*texts, "bytes"]


def test_what_other_clients_wrote(address: str, topic: str, bootstrap: str) -> None:
    with Consumer(topic, address) as consumer:
        fill(bootstrap, topic, [b"\xff\x00\xfe", None, b"text"])
        assert consumer.get_next(topic).encode("utf-8", "surrogateescape") == b"\xff\x00\xfe"
        assert read_all(consumer, topic) == ["", "text"]


def test_several_partitions(address: str, topic: str, bootstrap: str) -> None:
    create_topic(bootstrap, topic, partitions=3)
    with Consumer(topic, address) as consumer:
        for partition in range(3):
            values = [b"%d-%d" % (partition, number) for number in range(5)]
            fill(bootstrap, topic, values, partition=partition)
        assert consumer.size(topic) == 15
        found = read_all(consumer, topic)
        for partition in range(3):
            mine = [text for text in found if text.startswith(f"{partition}-")]
            assert mine == [f"{partition}-{number}" for number in range(5)]


def test_partitions_that_are_added(address: str, topic: str, bootstrap: str) -> None:
    with Producer(topic, address) as producer, Consumer(topic, address) as consumer:
        producer.send(topic, "old")
        assert read_all(consumer, topic) == ["old"]
        add_partitions(bootstrap, topic, 2)
        fill(bootstrap, topic, [b"new"], partition=1)
        # A gateway hears of it within some seconds.
        wait_until(lambda: consumer.has_next(topic), "the new partition", timeout_s=30)
        assert read_all(consumer, topic) == ["new"]


def test_messages_that_were_removed_are_passed_over(topic: str, bootstrap: str) -> None:
    address = bootstrap
    with Producer(topic, address) as producer:
        for number in range(10):
            producer.send(topic, str(number))
        with Consumer(topic, address) as consumer:
            assert consumer.get_next(topic) == "0"
            number = consumer.id
        delete_records(bootstrap, topic, before=7)
        with Consumer(topic, address, id=number) as later:
            assert later.size(topic) == 3
            assert read_all(later, topic) == ["7", "8", "9"]


def test_a_topic_that_was_made_again(address: str, topic: str, bootstrap: str) -> None:
    with Producer(topic, address) as producer, Consumer(topic, address) as consumer:
        for number in range(5):
            producer.send(topic, f"old {number}")
        assert len(read_all(consumer, topic)) == 5
        delete_topic(bootstrap, topic)
        with pytest.raises(TopicNotFoundError):
            consumer.has_next(topic)
        assert producer.send(topic, "new 0") == Delivered(topic, 0, 0)
        assert read_all(consumer, topic) == ["new 0"]


def test_keys_choose_the_partition(topic: str, bootstrap: str) -> None:
    create_topic(bootstrap, topic, partitions=8)
    with Producer(topic, bootstrap) as producer:
        for key in ("a", b"b", "c"):
            assert len({producer.send(topic, "x", key).partition for _ in range(5)}) == 1


def test_an_id_that_nobody_asked_for_leaves_nothing_behind(topic: str, bootstrap: str) -> None:
    with Producer(topic, bootstrap) as producer:
        producer.send(topic, "x")
    with Consumer(topic, bootstrap) as quiet, Consumer(topic, bootstrap) as known:
        quiet.get_next(topic)
        known.get_next(topic)
        group = f"penstock-consumer-{known.id}"
    assert committed(bootstrap, group, (topic, 0)) == [1]
    client = admin(bootstrap)
    groups = {each.group_id for each in client.list_consumer_groups(request_timeout=10).result().valid}
    assert group in groups
    assert f"penstock-consumer-{quiet._transport.ids[topic]}" not in groups


def test_refusals(address: str, topic: str) -> None:
    with pytest.raises(InvalidTopicError):
        Producer("no name", address)
    with pytest.raises(InvalidTopicError):
        Consumer("no name", address)
    with Producer(topic, address) as producer:
        with pytest.raises(MessageTooLargeError):
            producer.send(topic, "x" * 2_000_000)
        assert producer.send(topic, "short").offset == 0
    with pytest.raises(ClosedError):
        producer.send(topic, "late")


def test_tokens(bootstrap: str, topic: str, tmp_path: Path) -> None:
    tokens = {level: f"{level}-0123456789abcdef" for level in ("read", "write")}
    file = tmp_path / "tokens"
    file.write_text("".join(f"{level} {token}\n" for level, token in tokens.items()))
    with GatewayProcess(tmp_path, bootstrap, "--http-token-file", str(file)) as guarded:
        for token in (None, "nobody-0123456789abcdef"):
            with pytest.raises(NotAuthorizedError):
                Consumer(topic, guarded.url, token=token)
        with pytest.raises(NotAuthorizedError):
            Producer(topic, guarded.url, token=tokens["read"])
        with Producer([topic, f"{topic}-other"], guarded.url, token=tokens["write"]) as producer:
            producer.send(topic, "x")
        with Consumer(topic, guarded.url, token=tokens["read"]) as consumer:
            assert consumer.get_next(topic) == "x"
            with pytest.raises(ConsumerNotFoundError):
                Consumer(f"{topic}-other", guarded.url, id=consumer.id, token=tokens["read"])


def test_a_message_too_large_for_the_gateway_itself(topic: str, shared_gateway: GatewayProcess) -> None:
    with Producer(topic, shared_gateway.url) as producer:
        with pytest.raises(MessageTooLargeError):
            producer.send(topic, "x" * 30_000_000)
        assert producer.send(topic, "short").offset == 0


def test_ids_of_others(topic: str, shared_gateway: GatewayProcess) -> None:
    other = f"{topic}-other"
    with Producer(other, shared_gateway.url), Consumer(topic, shared_gateway.url) as consumer:
        with pytest.raises(ConsumerNotFoundError):
            Consumer(other, shared_gateway.url, id=consumer.id)
        with pytest.raises(ConsumerNotFoundError):
            Consumer(topic, shared_gateway.url, id=2**40)


def test_threads(address: str, topic: str) -> None:
    got: list[str] = []
    with Producer(topic, address) as producer, Consumer(topic, address) as consumer:

        def work(number: int) -> None:
            for index in range(20):
                producer.send(topic, f"{number}-{index}")
            got.extend(consumer.get_next(topic) for _ in range(20))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(got) == sorted(f"{number}-{index}" for number in range(4) for index in range(20))


def test_coroutines(address: str, topic: str) -> None:
    async def run() -> None:
        async with AsyncProducer(topic, address) as producer, AsyncConsumer(topic, address) as consumer:
            assert not await consumer.has_next(topic)
            sent = await asyncio.gather(*(producer.send(topic, str(number)) for number in range(100)))
            assert sorted(delivered.offset for delivered in sent) == list(range(100))
            assert await consumer.size(topic) == 100
            got = [await consumer.get_next(topic) for _ in range(60)]
            async with AsyncConsumer(topic, address, id=consumer.id) as other:
                while await other.has_next(topic):
                    got.append(await other.get_next(topic))
                with pytest.raises(NoMessageError):
                    await other.get_next(topic)
            assert [int(text) for text in got] == [
                number for number, _ in sorted(enumerate(sent), key=lambda entry: entry[1].offset)
            ]

    asyncio.run(run())


def test_coroutines_and_a_broker_that_is_not_there(unused_address: str) -> None:
    async def run() -> None:
        with pytest.raises(DisconnectedServerError):
            await AsyncProducer("a", unused_address, timeout_s=0.5).send("a", "x")
        with pytest.raises(DisconnectedServerError):
            async with AsyncConsumer("a", unused_address, timeout_s=0.5):
                pass

    asyncio.run(run())


@pytest.fixture(params=["", "http://"])
def unused_address(request: pytest.FixtureRequest) -> str:
    return f"{request.param}127.0.0.1:{free_port()}"
