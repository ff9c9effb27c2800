"""The topic queue through real processes: shapes and codes, restarts, several gateways at once."""

from __future__ import annotations

import asyncio
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.support.broker import BrokerProcess
from tests.support.gateway import GatewayProcess
from tests.support.queue_load import run_load
from tests.support.raw import RawClient, make_batch, poison_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

SECONDS = float(os.environ.get("PENSTOCK_QUEUE_SECONDS", "4"))
KILLS = max(2, min(5, round(SECONDS / 12)))
TOPICS = 8
CLIENTS = 32


def register(gateway: GatewayProcess, kind: str, topic: str) -> int:
    answer = gateway.post(f"/{kind}/register", {"topic": topic})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body.keys() == {"status", f"{kind}_id"}
    assert body["status"] == "success"
    assert body[f"{kind}_id"] > 0
    return int(body[f"{kind}_id"])


def produce(gateway: GatewayProcess, topic: str, producer: int, message: str, **more: str) -> dict[str, Any]:
    body = {"topic": topic, "producer_id": producer, "message": message, **more}
    answer = gateway.post("/producer/produce", body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def consume(gateway: GatewayProcess, topic: str, consumer: int, **more: str) -> dict[str, Any] | None:
    answer = gateway.get("/consumer/consume", params={"topic": topic, "consumer_id": consumer, **more})
    assert answer.status_code in (200, 204), answer.text
    return dict(answer.json()) if answer.status_code == 200 else None


def size(gateway: GatewayProcess, topic: str, consumer: int) -> int:
    answer = gateway.get("/size", params={"topic": topic, "consumer_id": consumer})
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"status", "size"}
    return int(answer.json()["size"])


def assert_failure(answer: httpx.Response, status: int, words: str = "") -> None:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["status"] == "failure"
    assert words in body["message"]
    assert "Traceback" not in answer.text


def test_topics_are_created_once_and_listed(shared_gateway: GatewayProcess, topic: str) -> None:
    created = shared_gateway.post("/topics", {"topic_name": topic})
    assert created.status_code == 201
    assert created.json().keys() == {"status", "message"}
    assert created.json()["status"] == "success"
    assert_failure(shared_gateway.post("/topics", {"topic_name": topic}), 409, topic)
    listed = shared_gateway.get("/topics")
    assert listed.status_code == 200
    assert listed.json()["status"] == "success"
    assert topic in listed.json()["topics"]
    assert not [name for name in listed.json()["topics"] if name.startswith("__")]


@pytest.mark.parametrize(
    "body",
    [{}, {"topic_name": 7}, {"topic_name": ""}, {"topic_name": "a b"}, {"topic_name": "__x"}, [], "a", None],
)
def test_bad_topics_are_refused(shared_gateway: GatewayProcess, body: Any) -> None:
    assert_failure(shared_gateway.post("/topics", body), 400)


def test_messages_come_in_order_and_once(shared_gateway: GatewayProcess, topic: str) -> None:
    producer, consumer = (
        register(shared_gateway, "producer", topic),
        register(shared_gateway, "consumer", topic),
    )
    assert producer != consumer
    messages = ["one", "", "drei ❤", '"quoted"\n']
    for offset, message in enumerate(messages):
        answer = produce(shared_gateway, topic, producer, message)
        assert answer == {"status": "success", "partition": 0, "offset": offset}
    assert size(shared_gateway, topic, consumer) == 4
    for offset, message in enumerate(messages):
        answer = consume(shared_gateway, topic, consumer)
        assert answer == {"status": "success", "message": message, "offset": offset}
        assert size(shared_gateway, topic, consumer) == 3 - offset
    assert consume(shared_gateway, topic, consumer) is None
    late = register(shared_gateway, "consumer", topic)
    assert size(shared_gateway, topic, late) == 4
    assert consume(shared_gateway, topic, late) == {"status": "success", "message": "one", "offset": 0}


def test_parameters_of_get_may_come_as_a_body(shared_gateway: GatewayProcess, topic: str) -> None:
    producer, consumer = (
        register(shared_gateway, "producer", topic),
        register(shared_gateway, "consumer", topic),
    )
    produce(shared_gateway, topic, producer, "m")
    body = {"topic": topic, "consumer_id": consumer}
    answer = shared_gateway.request("GET", "/size", json=body)
    assert answer.json() == {"status": "success", "size": 1}
    answer = shared_gateway.request("GET", "/consumer/consume", json=body)
    assert answer.json() == {"status": "success", "message": "m", "offset": 0}


def test_ids_are_for_one_topic_and_one_kind(shared_gateway: GatewayProcess, topic: str) -> None:
    producer, consumer = (
        register(shared_gateway, "producer", topic),
        register(shared_gateway, "consumer", topic),
    )
    other = f"{topic}-other"
    register(shared_gateway, "producer", other)

    def produced(producer_id: Any, name: str = topic) -> httpx.Response:
        return shared_gateway.post(
            "/producer/produce", {"topic": name, "producer_id": producer_id, "message": "m"}
        )

    def consumed(consumer_id: Any, name: str = topic) -> httpx.Response:
        return shared_gateway.get("/consumer/consume", params={"topic": name, "consumer_id": consumer_id})

    assert_failure(produced(producer, other), 403, other)
    assert_failure(produced(consumer), 404)
    assert_failure(produced(10**9), 404)
    assert_failure(consumed(consumer, other), 403, other)
    assert_failure(consumed(producer), 404)
    assert_failure(shared_gateway.get("/size", params={"topic": topic, "consumer_id": 10**9}), 404)
    for wrong in (0, -1, "7", 1.5, True, None, 2**70):
        assert_failure(produced(wrong), 400, "producer_id")
    for wrong in (0, -1, "x", "1.5", 2**70):
        assert_failure(consumed(wrong), 400, "consumer_id")
    assert_failure(
        shared_gateway.post("/producer/produce", {"producer_id": producer, "message": "m"}), 400, "topic"
    )
    for wrong in (7, None, ["m"]):
        body = {"topic": topic, "producer_id": producer, "message": wrong}
        assert_failure(shared_gateway.post("/producer/produce", body), 400, "message")
    for wrong in ("", "x" * 129, 7):
        body = {"topic": topic, "producer_id": producer, "message": "m", "request_id": wrong}
        assert_failure(shared_gateway.post("/producer/produce", body), 400, "request_id")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'{"topic": "\\ud800"}', b"[" * 10_000, b"null"])
def test_bodies_that_are_no_json_objects(shared_gateway: GatewayProcess, body: bytes) -> None:
    for path in ("/topics", "/producer/register", "/consumer/register", "/producer/produce"):
        assert_failure(shared_gateway.request("POST", path, content=body), 400)


def test_what_is_not_there(shared_gateway: GatewayProcess) -> None:
    assert_failure(shared_gateway.get("/nowhere"), 404)
    assert_failure(shared_gateway.post("/consumer/consume", {}), 405)


def test_a_repeated_request_id_gets_the_same_answer(shared_gateway: GatewayProcess, topic: str) -> None:
    producer, consumer = (
        register(shared_gateway, "producer", topic),
        register(shared_gateway, "consumer", topic),
    )
    first = produce(shared_gateway, topic, producer, "a", request_id="p1")
    assert produce(shared_gateway, topic, producer, "a", request_id="p1") == first
    assert produce(shared_gateway, topic, producer, "b", request_id="p2")["offset"] == first["offset"] + 1
    got = consume(shared_gateway, topic, consumer, request_id="c1")
    assert got is not None
    assert consume(shared_gateway, topic, consumer, request_id="c1") == got
    assert size(shared_gateway, topic, consumer) == 1
    second = consume(shared_gateway, topic, consumer, request_id="c2")
    assert second is not None
    assert (got["message"], second["message"]) == ("a", "b")
    # Another producer's request of the same name is another request.
    other = register(shared_gateway, "producer", topic)
    assert produce(shared_gateway, topic, other, "c", request_id="p1")["offset"] == 2


def test_messages_of_other_clients(
    shared_gateway: GatewayProcess, shared_broker: BrokerProcess, topic: str
) -> None:
    consumer = register(shared_gateway, "consumer", topic)
    kafka = Producer({"bootstrap.servers": shared_broker.bootstrap})
    for value in (b"text", b"\xff\x00", None):
        kafka.produce(topic, value, key=b"k")
    assert kafka.flush(20) == 0
    assert consume(shared_gateway, topic, consumer) == {"status": "success", "message": "text", "offset": 0}
    binary = {"status": "success", "message": "/wA=", "offset": 1, "encoding": "base64"}
    assert consume(shared_gateway, topic, consumer) == binary
    assert consume(shared_gateway, topic, consumer) == {"status": "success", "message": None, "offset": 2}


def test_partitions_take_turns(
    shared_gateway: GatewayProcess, shared_broker: BrokerProcess, topic: str
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    admin.create_topics([NewTopic(topic, 3)])[topic].result(20)
    by_partition: dict[int, int] = {}
    while len(by_partition) < 3:  # a producer's partition is as much chance as its id
        producer = register(shared_gateway, "producer", topic)
        by_partition[producer % 3] = producer
    producers = list(by_partition.values())
    for i in range(4):
        for producer in producers:
            produce(shared_gateway, topic, producer, f"{producer}-{i}")
    consumer = register(shared_gateway, "consumer", topic)
    assert size(shared_gateway, topic, consumer) == 12
    got = [consume(shared_gateway, topic, consumer) for _ in range(12)]
    messages = [answer["message"] for answer in got if answer is not None]
    assert len(messages) == 12
    for producer in producers:
        mine = [message for message in messages if message.startswith(f"{producer}-")]
        assert mine == [f"{producer}-{i}" for i in range(4)]
    assert {message.split("-")[0] for message in messages[:3]} == {str(producer) for producer in producers}
    assert consume(shared_gateway, topic, consumer) is None


def test_a_topic_that_was_deleted_and_created_again(
    shared_gateway: GatewayProcess, shared_broker: BrokerProcess, topic: str
) -> None:
    from confluent_kafka.admin import AdminClient

    producer, consumer = (
        register(shared_gateway, "producer", topic),
        register(shared_gateway, "consumer", topic),
    )
    for i in range(3):
        produce(shared_gateway, topic, producer, f"old {i}")
    assert consume(shared_gateway, topic, consumer) is not None
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    admin.delete_topics([topic])[topic].result(20)
    parameters = {"topic": topic, "consumer_id": consumer}

    def status() -> int:
        return shared_gateway.get("/consumer/consume", params=parameters).status_code

    wait_until(lambda: status() == 404, "404 for a deleted topic")
    register(shared_gateway, "producer", topic)
    for i in range(3):
        produce(shared_gateway, topic, producer, f"new {i}")
    assert size(shared_gateway, topic, consumer) == 3
    assert [(consume(shared_gateway, topic, consumer) or {}).get("message") for _ in range(4)] == [
        "new 0",
        "new 1",
        "new 2",
        None,
    ]


def test_ids_and_positions_survive_restarts(broker: BrokerProcess, tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, broker.bootstrap) as gateway:
        producer, consumer = register(gateway, "producer", "t"), register(gateway, "consumer", "t")
        for i in range(4):
            produce(gateway, "t", producer, f"m{i}", request_id=f"p{i}")
        assert consume(gateway, "t", consumer, request_id="c0") is not None
        gateway.restart()
        second = consume(gateway, "t", consumer)
        assert second is not None
        assert second["message"] == "m1"
        gateway.restart(clean=False)
        broker.restart(clean=False)
        again = consume(gateway, "t", consumer, request_id="c0")
        assert again is not None
        assert again["message"] == "m0"
        assert produce(gateway, "t", producer, "m3", request_id="p3")["offset"] == 3
        assert size(gateway, "t", consumer) == 2
        assert register(gateway, "consumer", "t") not in (producer, consumer)
        third = consume(gateway, "t", consumer)
        assert third is not None
        assert third["message"] == "m2"


def test_a_cluster_that_lost_its_memory(tmp_path: Path) -> None:
    """Ids and positions go with the log, and the gateway that is still there begins anew with it."""
    with (
        BrokerProcess(tmp_path, "--storage", "memory", "--no-http") as broker,
        GatewayProcess(tmp_path, broker.bootstrap) as gateway,
    ):
        producers = [register(gateway, "producer", topic) for topic in ("a", "b", "c")]
        consumer = register(gateway, "consumer", "c")
        produce(gateway, "c", producers[2], "old")
        assert consume(gateway, "c", consumer) is not None
        broker.restart(clean=False)

        def status() -> int:
            return gateway.get("/size", params={"topic": "c", "consumer_id": consumer}).status_code

        wait_until(lambda: status() == 404, "404 for an id that is gone")
        answers = [gateway.post("/producer/register", {"topic": "c"}) for _ in range(3)]
        ids = [answer.json()["producer_id"] for answer in answers if answer.status_code == 200]
        assert len(ids) == len(set(ids)) >= 1
        reader = register(gateway, "consumer", "c")
        assert produce(gateway, "c", ids[-1], "new")["offset"] == 0
        assert consume(gateway, "c", reader) == {"status": "success", "message": "new", "offset": 0}
        assert consume(gateway, "c", reader) is None


def test_checkpoints_shorten_the_log_and_nothing_is_forgotten(
    shared_broker: BrokerProcess, tmp_path: Path, topic: str
) -> None:
    with GatewayProcess(tmp_path, shared_broker.bootstrap, "--limit", "checkpoint_records=20") as gateway:
        producer, consumer = register(gateway, "producer", topic), register(gateway, "consumer", topic)
        for i in range(100):
            produce(gateway, topic, producer, f"m{i}")
        for i in range(90):
            got = consume(gateway, topic, consumer, request_id=f"c{i}")
            assert got is not None
            assert got["message"] == f"m{i}"
        wait_until(lambda: log_start(shared_broker, consumer % 16) > 20, "a shorter log")
        gateway.restart(clean=False)
        again = consume(gateway, topic, consumer, request_id="c89")
        assert again is not None
        assert again["message"] == "m89"
        assert size(gateway, topic, consumer) == 10


def log_start(broker: BrokerProcess, partition: int) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looking"})
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition("__penstock_positions", partition), timeout=20)
        return int(low)
    finally:
        consumer.close()


def test_batches_of_strangers_in_its_own_logs_stop_nothing(
    shared_broker: BrokerProcess, tmp_path: Path, topic: str
) -> None:
    with GatewayProcess(tmp_path, shared_broker.bootstrap) as gateway:
        producer, consumer = register(gateway, "producer", topic), register(gateway, "consumer", topic)
        produce(gateway, topic, producer, "before")
        assert (consume(gateway, topic, consumer) or {})["message"] == "before"
        with RawClient(shared_broker.bootstrap) as stranger:
            where = [("__penstock_ids", 0), ("__penstock_positions", consumer % 16), (topic, 0)]
            for name, partition in where:
                stranger.produce(name, poison_batch(), partition=partition)
                stranger.produce(name, make_batch([b"[]", b"not a record"]), partition=partition)
        produce(gateway, topic, producer, "after")
        for _ in range(2):
            other = register(gateway, "consumer", topic)
            assert size(gateway, topic, other) == 4, "all but the batch that cannot be read"
            assert [(consume(gateway, topic, other) or {})["message"] for _ in range(4)][-1] == "after"
            assert [(consume(gateway, topic, consumer) or {})["message"] for _ in range(3)][-1] == "after"
            gateway.restart(clean=False)
            consumer = register(gateway, "consumer", topic)
            consume(gateway, topic, consumer)
        assert "passed over the batch at offset" in gateway.log
        assert "passed over the record at offset" in gateway.log


def test_two_gateways_never_hand_out_one_message_twice(
    shared_gateway: GatewayProcess, shared_broker: BrokerProcess, tmp_path: Path, topic: str
) -> None:
    count = 150
    with GatewayProcess(tmp_path, shared_broker.bootstrap) as other:
        producer, consumer = register(shared_gateway, "producer", topic), register(other, "consumer", topic)
        for i in range(count):
            produce(shared_gateway, topic, producer, str(i))

        def drain(which: GatewayProcess) -> list[str]:
            got = []
            while (answer := consume(which, topic, consumer)) is not None:
                got.append(answer["message"])
            return got

        with ThreadPoolExecutor(4) as threads:
            drained = list(threads.map(drain, [shared_gateway, other, shared_gateway, other]))
        assert sorted(itertools.chain(*drained), key=int) == [str(i) for i in range(count)]
        assert all(got == sorted(got, key=int) for got in drained)
        assert size(other, topic, consumer) == size(shared_gateway, topic, consumer) == 0


def test_two_gateways_with_one_request_id_give_the_same_message(
    shared_gateway: GatewayProcess, shared_broker: BrokerProcess, tmp_path: Path, topic: str
) -> None:
    with GatewayProcess(tmp_path, shared_broker.bootstrap) as other:
        producer, consumer = register(shared_gateway, "producer", topic), register(other, "consumer", topic)
        for i in range(20):
            produce(shared_gateway, topic, producer, str(i))
        with ThreadPoolExecutor(2) as threads:
            for i in range(20):
                got = list(
                    threads.map(
                        lambda which: consume(which, topic, consumer, request_id=f"r{i}"),  # noqa: B023
                        [shared_gateway, other],
                    )
                )
                assert got[0] == got[1] == {"status": "success", "message": str(i), "offset": i}
        retried = produce(shared_gateway, topic, producer, "last", request_id="p")
        assert produce(other, topic, producer, "last", request_id="p") == retried


def test_registrations_at_the_same_moment_get_different_ids(
    shared_gateway: GatewayProcess, shared_broker: BrokerProcess, tmp_path: Path, topic: str
) -> None:
    with GatewayProcess(tmp_path, shared_broker.bootstrap) as other, ThreadPoolExecutor(8) as threads:
        ids = list(
            threads.map(
                lambda i: register(
                    (shared_gateway, other)[i % 2], ("producer", "consumer")[i // 2 % 2], topic
                ),
                range(60),
            )
        )
    assert len(set(ids)) == 60


@pytest.mark.timeout(SECONDS * 4 + 300)
def test_each_message_exactly_once_while_the_gateway_is_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    """32 producers and 32 consumers on 8 topics; clients repeat what was not answered, by request id."""
    topics = [f"t{i}" for i in range(TOPICS)]

    async def run(gateway: GatewayProcess) -> None:
        stop = asyncio.Event()
        load = asyncio.create_task(
            run_load([gateway.url], topics, producers=CLIENTS, consumers=CLIENTS, until=stop)
        )
        for _ in range(KILLS):
            await asyncio.sleep(SECONDS / (KILLS + 1))
            await asyncio.to_thread(gateway.restart, clean=False)
        await asyncio.sleep(SECONDS / (KILLS + 1))
        stop.set()
        history = await load
        history.check()
        messages = sum(map(len, history.produced.values()))
        print(f"{messages} messages, {len(history.consumed)} consumers, {history.retries} retries")
        assert len(history.produced) == TOPICS
        assert len(history.consumed) == CLIENTS
        assert history.retries > 0

    with GatewayProcess(tmp_path, broker.bootstrap) as gateway:
        asyncio.run(run(gateway))
