"""The flow of the topic queue's design document: part A keeps everything in memory, part B in PostgreSQL.

Part C, the library over these endpoints, has its own test beside the library's.
"""

from __future__ import annotations

import contextlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.support.broker import BrokerProcess
from tests.support.gateway import GatewayProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres import PostgresProcess


@contextlib.contextmanager
def serving(folder: Path, storage: str) -> Iterator[tuple[BrokerProcess, GatewayProcess]]:
    with (
        BrokerProcess(folder, "--storage", storage) as broker,
        GatewayProcess(folder, broker.bootstrap) as gateway,
    ):
        yield broker, gateway


def created(gateway: GatewayProcess, topic: str) -> int:
    return gateway.post("/topics", {"topic_name": topic}).status_code


def topics(gateway: GatewayProcess) -> list[str]:
    return list(gateway.get("/topics").json()["topics"])


def registered(gateway: GatewayProcess, kind: str, topic: str) -> int:
    return int(gateway.post(f"/{kind}/register", {"topic": topic}).json()[f"{kind}_id"])


def produced(gateway: GatewayProcess, topic: str, producer: int, message: str) -> int:
    body = {"topic": topic, "producer_id": producer, "message": message}
    return gateway.post("/producer/produce", body).status_code


def consumed(gateway: GatewayProcess, topic: str, consumer: int) -> str | None:
    answer = gateway.get("/consumer/consume", params={"topic": topic, "consumer_id": consumer})
    assert answer.status_code in (200, 204), answer.text
    return str(answer.json()["message"]) if answer.status_code == 200 else None


def size(gateway: GatewayProcess, topic: str, consumer: int) -> Any:
    return gateway.get("/size", params={"topic": topic, "consumer_id": consumer}).json()["size"]


def drained(gateway: GatewayProcess, topic: str, consumer: int) -> list[str]:
    got = []
    while (message := consumed(gateway, topic, consumer)) is not None:
        got.append(message)
    return got


def the_flow(gateway: GatewayProcess) -> tuple[int, int, list[str]]:
    """The document's steps; a consumer of `T1` with its id, and what is left for it."""
    assert topics(gateway) == []
    assert [created(gateway, topic) for topic in ("T1", "T2", "T1")] == [201, 201, 409]
    assert topics(gateway) == ["T1", "T2"]

    first, second = registered(gateway, "producer", "T1"), registered(gateway, "producer", "T2")
    # A topic that does not exist yet comes into being with its first producer or consumer.
    third = registered(gateway, "consumer", "T3")
    assert topics(gateway) == ["T1", "T2", "T3"]
    assert len({first, second, third}) == 3, "ids are unique across topics"
    assert produced(gateway, "T2", first, "not its topic") == 403

    assert [produced(gateway, "T1", first, f"log {i}") for i in range(3)] == [200] * 3
    assert produced(gateway, "T2", second, "another topic's") == 200
    reader = registered(gateway, "consumer", "T1")
    assert size(gateway, "T1", reader) == 3, "a new consumer has all logs from the beginning"
    assert [consumed(gateway, "T1", reader) for _ in range(4)] == ["log 0", "log 1", "log 2", None]
    assert size(gateway, "T1", reader) == 0

    # Producers and consumers register and write at the same time, on several topics.
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda i: registered(gateway, "producer", f"T{1 + i % 3}"), range(24)))
        assert len(set(ids)) == 24
        statuses = threads.map(
            lambda i: [produced(gateway, f"T{1 + i % 3}", ids[i], f"{ids[i]}:{k}") for k in range(5)],
            range(24),
        )
        assert {status for each in statuses for status in each} == {200}
    late = registered(gateway, "consumer", "T1")
    everything, rest = drained(gateway, "T1", late), drained(gateway, "T1", reader)
    assert everything == ["log 0", "log 1", "log 2", *rest], "all consumers see one order"
    for producer in ids[::3]:
        own = [message for message in rest if message.startswith(f"{producer}:")]
        assert own == [f"{producer}:{k}" for k in range(5)]
    assert produced(gateway, "T1", first, "the last one") == 200
    return first, reader, ["the last one"]


def test_part_a_in_memory(tmp_path: Path) -> None:
    with serving(tmp_path, "memory") as (_, gateway):
        _, consumer, left = the_flow(gateway)
        assert drained(gateway, "T1", consumer) == left


def test_part_b_in_postgresql(tmp_path: Path, postgres: PostgresProcess) -> None:
    url = postgres.create_database(f"queue_{uuid.uuid4().hex}")
    with serving(tmp_path, url) as (broker, gateway):
        producer, consumer, left = the_flow(gateway)
        gateway.kill()
        broker.restart(clean=False)
        gateway.start()
        assert topics(gateway) == ["T1", "T2", "T3"]
        assert size(gateway, "T1", consumer) == len(left)
        assert produced(gateway, "T1", producer, "after the crash") == 200
        assert drained(gateway, "T1", consumer) == [*left, "after the crash"]
