"""Clients of the simulated cluster: idempotent producers that never give up, and readers.

A producer sends again whatever was not acknowledged, in order, to whomever it takes for the leader. Answers
of any attempt count. Its batches carry sequences, so that each must be in the log once and in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.types import ErrorCode
from tests.sim.controller import TOPIC
from tests.sim.truth import Entry, Message, encode, entries

if TYPE_CHECKING:
    from tests.sim.replication import Cluster


@dataclass
class Batch:
    messages: list[Message]
    data: bytes
    is_acknowledged: bool = False


class Client:
    def __init__(self, cluster: Cluster, client_id: int, index: int) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.client_id, self.index = client_id, index
        self.random = self.world.stream(f"client {client_id}")

    def leader(self) -> int | None:
        """As a broker sees it that may know the latest or not."""
        known = [broker for broker in self.cluster.running.values() if broker.image is not None]
        if not known:
            return None
        broker = self.random.choice(known)
        topic = broker.image.topics.get(TOPIC) if broker.image is not None else None
        return topic.partitions[self.index].leader if topic is not None else None


class Producer(Client):
    def __init__(
        self, cluster: Cluster, client_id: int, index: int, in_flight_max: int, idle_ms_max: int
    ) -> None:
        super().__init__(cluster, client_id, index)
        self.in_flight_max = in_flight_max
        self.idle_ms_max = idle_ms_max
        self.pending: list[Batch] = []
        self.sequence = 0
        self.attempt = 0
        self.is_writing = True
        """Else it only finishes what it began."""

    def send(self) -> None:
        """Another attempt for all that is pending, and for more."""
        self.attempt += 1
        self.fill()
        leader = self.leader()
        if leader is not None and leader >= 0:
            for batch in self.pending:
                self.send_batch(batch, leader, self.attempt)
        if self.pending or self.is_writing:
            self.send_later(self.random.randint(30, 120))

    def send_later(self, delay_ms: int) -> None:
        attempt = self.attempt

        def send() -> None:
            if self.attempt == attempt:
                self.send()

        self.world.after(delay_ms, send)

    def fill(self) -> None:
        # A log takes any first batch of a producer that it does not know, so that one goes alone.
        in_flight_max = self.in_flight_max if self.sequence and not self.pending else 1
        while self.is_writing and not self.cluster.is_quiet and len(self.pending) < in_flight_max:
            count = self.random.randint(1, 3)
            messages = [Message(self.client_id, self.sequence + at) for at in range(count)]
            self.sequence += count
            self.pending.append(Batch(messages, encode(messages, is_idempotent=True)))

    def send_batch(self, batch: Batch, leader: int, attempt: int) -> None:
        def produced(error: ErrorCode, base_offset: int) -> None:
            self.world.send(
                leader, -self.client_id, lambda: self.produced(batch, error, base_offset, attempt)
            )

        self.cluster.send(
            -self.client_id,
            leader,
            lambda broker: broker.produce(self.index, batch.messages, batch.data, produced),
        )

    def produced(self, batch: Batch, error: ErrorCode, base_offset: int, attempt: int) -> None:
        if error is not ErrorCode.none:
            if attempt == self.attempt:
                self.send_later(self.random.randint(5, 20))
            return
        self.cluster.truths[self.index].acknowledged(batch.messages, base_offset)
        if batch in self.pending:
            self.pending.remove(batch)
            if not self.pending:
                self.send_later(self.random.randint(0, self.idle_ms_max))


class Writer(Client):
    """Writes without waiting for anybody (acks=1): much of it is lost, and many logs end differently."""

    def __init__(self, cluster: Cluster, client_id: int, index: int, pause_ms_max: int) -> None:
        super().__init__(cluster, client_id, index)
        self.pause_ms_max = pause_ms_max
        self.written = 0
        self.is_writing = True

    def send(self) -> None:
        if not self.is_writing:
            return
        self.world.after(self.random.randint(1, self.pause_ms_max), self.send)
        leader = self.leader()
        if leader is not None and leader >= 0 and not self.cluster.is_quiet:
            self.written += 1
            messages = [Message(self.client_id, -self.written)]
            data = encode(messages, is_idempotent=False)
            self.cluster.send(
                -self.client_id, leader, lambda broker: broker.produce(self.index, messages, data, None)
            )


class Consumer(Client):
    """Reads from any replica up to its high watermark, and remembers everything that it ever saw."""

    def __init__(self, cluster: Cluster, client_id: int, index: int) -> None:
        super().__init__(cluster, client_id, index)
        self.seen: dict[int, Entry] = {}
        self.offset = 0

    def poll(self) -> None:
        self.world.after(self.random.randint(20, 80), self.poll)
        replicas = [
            broker.replicas[self.index]
            for broker in self.cluster.running.values()
            if self.index in broker.replicas and not broker.is_paused
        ]
        if not replicas:
            return
        replica = self.random.choice(replicas)
        start = replica.log.log_start_offset
        from_start = self.random.random() < 0.2  # as a new group does
        expected = start if from_start else max(self.offset, start)  # what was deleted is passed over
        for at, entry in entries(replica.log, expected, replica.high_watermark):
            assert at == expected, f"{replica.who} skips from {expected} to {at}"
            known = self.seen.setdefault(at, entry)
            assert known == entry, f"{replica.who} has {entry} at {at}, read was {known}"
            expected += 1
        self.offset = max(self.offset, expected)
