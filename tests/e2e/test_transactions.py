"""Transactions on clusters whose nodes fail in random combination, and what readers may see of them.

Writers put every transaction into two topics and end some of them with an abort. A writer that is told
nothing about its commit takes its id over again, which settles the outcome, and looks for it in the log.
Whatever happens: a reader of committed data sees each committed transaction whole, once and in order, and
nothing of any other (no aborted read, no torn transaction, no lost transactional write).

PENSTOCK_FAULT_SECONDS is the time in which faults happen, PENSTOCK_FAULT_SEED chooses them.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.support.cluster import Cluster
from tests.support.nemesis import Nemesis
from tests.support.topics import admin

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("PENSTOCK_FAULT_SECONDS", "15"))
SEED = int(os.environ.get("PENSTOCK_FAULT_SEED", "1"))
LEFT, RIGHT = "left", "right"
PARTITIONS = 2
WRITERS = 3
SETTLE_S_MAX = 120.0


@dataclass
class Told:
    """What writers were promised: transactions by writer and number."""

    committed: set[tuple[str, int]] = field(default_factory=set)
    aborted: set[tuple[str, int]] = field(default_factory=set)
    unknown: set[tuple[str, int]] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)


class Writer(threading.Thread):
    def __init__(self, bootstrap: str, name: str, told: Told, stop: threading.Event) -> None:
        super().__init__(name=name)
        self._servers, self._told, self._done = bootstrap, told, stop
        self._chance = random.Random(f"{SEED}-{name}")

    def run(self) -> None:
        number = 0
        while not self._done.is_set():
            try:
                producer = self._own()
                while not self._done.is_set():
                    self._transact(producer, number)
                    number += 1
            except KafkaException as error:
                # Whatever it was: another producer of the same id settles what was open.
                if not error.args[0].fatal() and not error.args[0].txn_requires_abort():
                    time.sleep(0.1)
                number += 1
            except BaseException as error:
                self._told.complaints.append(repr(error))
                raise

    def _own(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": self.name,
                "transaction.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(SETTLE_S_MAX)
        return producer

    def _transact(self, producer: Producer, number: int) -> None:
        key = (self.name, number)
        producer.begin_transaction()
        self._told.unknown.add(key)
        for topic in (LEFT, RIGHT):
            for part in range(self._chance.randint(1, 5)):
                partition = self._chance.randrange(PARTITIONS)
                producer.produce(topic, f"{self.name}:{number}:{part}", partition=partition)
        producer.flush(5)
        if self._chance.random() < 0.3:
            producer.abort_transaction(30)
            self._told.aborted.add(key)
        else:
            producer.commit_transaction(30)
            self._told.committed.add(key)
        self._told.unknown.discard(key)


@contextmanager
def consumer_of(bootstrap: str, isolation: str) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": False,
        "log_level": 0,
    }
    with closing(Consumer(settings)) as consumer:
        yield consumer


def read_all(bootstrap: str, isolation: str) -> dict[TopicPartition, list[str]]:
    """Everything up to the end that a reader of this kind has."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    with consumer_of(bootstrap, isolation) as consumer:
        wanted = [TopicPartition(topic, index, 0) for topic in (LEFT, RIGHT) for index in range(PARTITIONS)]
        ends = {
            (each.topic, each.partition): consumer.get_watermark_offsets(each, timeout=30)[1]
            for each in wanted
        }
        consumer.assign(wanted)
        deadline = time.monotonic() + SETTLE_S_MAX
        while any(each.offset < ends[each.topic, each.partition] for each in consumer.position(wanted)):
            assert time.monotonic() < deadline, f"{consumer.position(wanted)} of {ends}: a transaction hangs"
            for message in consumer.consume(500, timeout=0.5):
                assert message.error() is None, message.error()
                found[message.topic(), message.partition()].append(message.value().decode())
    return found


def by_transaction(found: dict[tuple[str, int], list[str]]) -> dict[tuple[str, int], dict[str, list[int]]]:
    transactions: dict[tuple[str, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, _), values in found.items():
        for value in values:
            writer, number, part = value.split(":")
            transactions[writer, int(number)][topic].append(int(part))
    return transactions


@pytest.mark.timeout(SECONDS + 300)
def test_transactions_are_atomic_through_faults(tmp_path: Path) -> None:
    told, stop = Told(), threading.Event()
    with Cluster(tmp_path, brokers=3, settings=[]) as cluster:
        create_topics(cluster)
        nemesis = Nemesis(cluster, LEFT, SEED)
        writers = [Writer(cluster.bootstrap, f"w{number}", told, stop) for number in range(WRITERS)]
        try:
            for writer in writers:
                writer.start()
            nemesis.rage(SECONDS)
            nemesis.heal()
        finally:
            stop.set()
            for writer in writers:
                writer.join(SETTLE_S_MAX)
        assert told.complaints == [], nemesis.story
        settle(cluster.bootstrap)
        check_what_readers_see(cluster.bootstrap, told, nemesis)


def create_topics(cluster: Cluster) -> None:
    topics = [NewTopic(name, PARTITIONS, 3) for name in (LEFT, RIGHT)]
    client = admin(cluster.bootstrap)
    for future in client.create_topics(topics).values():
        future.result(30)


def settle(bootstrap: str) -> None:
    """A new owner of each id: what was left open is decided."""
    for number in range(WRITERS):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"w{number}", "log_level": 0}
        )
        producer.init_transactions(SETTLE_S_MAX)


def check_what_readers_see(bootstrap: str, told: Told, nemesis: Nemesis) -> None:
    seen = by_transaction(read_all(bootstrap, "read_committed"))
    written = by_transaction(read_all(bootstrap, "read_uncommitted"))
    story = "\n".join(nemesis.story)
    assert told.committed, f"nothing was committed\n{story}"
    assert told.committed <= seen.keys(), f"lost: {sorted(told.committed - seen.keys())}\n{story}"
    assert not told.aborted & seen.keys(), f"aborted and read: {sorted(told.aborted & seen.keys())}\n{story}"
    assert seen.keys() <= told.committed | told.unknown, f"from nowhere\n{story}"
    for key, topics in seen.items():
        assert set(topics) == {LEFT, RIGHT}, f"{key} is torn: {topics}\n{story}"
        for topic, parts in topics.items():
            assert sorted(parts) == list(range(len(parts))), f"{key} in {topic}: {parts}\n{story}"
        assert topics == written[key]
