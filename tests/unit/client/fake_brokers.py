"""A cluster of one partition in memory, as far as transactions need it, that loses requests and answers.

It reads requests with kio, and keeps the rules of the protocol: epochs, sequence numbers, what is visible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from kio.index import load_request_schema
from kio.serial import entity_reader

from penstock.client.kafka.raw.batch import Owner
from penstock.client.kafka.raw.requests import GroupOffset, Request
from penstock.wire.batch import read_header
from penstock.wire.records import decode_records

Partition = tuple[str, int]


class FakeCluster:
    """What all clients share."""

    def __init__(self) -> None:
        self.committed: list[bytes] = []
        self.offsets: dict[Partition, GroupOffset] = {}
        self.offsets_of_replaced: dict[Partition, GroupOffset] | None = None
        """In the memory of a group coordinator that does not know yet that it was replaced."""
        self._owners: dict[str, Owner] = {}
        self._before: dict[str, Owner] = {}
        self._open: dict[str, tuple[list[bytes], dict[Partition, GroupOffset]]] = {}
        self._ended: dict[str, bool] = {}
        self._sequences: dict[Owner, tuple[int, int]] = {}
        self._end = 0

    def time_out(self, name: str) -> None:
        """The coordinator aborts what is open for too long."""
        if self._open.pop(name, None) is not None:
            self._owners[name] = Owner(self._owners[name].producer_id, self._owners[name].epoch + 1)

    def answer(self, request: Request[Any]) -> Any:
        body, _ = entity_reader(load_request_schema(request.api_key, request.version))(request.body, 0)
        handlers: dict[int, Callable[[Any], Any]] = {
            0: self._produce,
            9: self._fetch_offsets,
            22: self._init,
            24: self._add_partitions,
            25: lambda body: self._check(body.transactional_id, Owner(body.producer_id, body.producer_epoch)),
            26: self._end_transaction,
            28: self._commit_offsets,
        }
        return handlers[request.api_key](body)

    def _check(self, name: str, owner: Owner) -> int:
        if self._owners.get(name) == owner:
            return 0
        return int(KafkaError.PRODUCER_FENCED)

    def _init(self, body: Any) -> tuple[int, Owner]:
        name, asked = body.transactional_id, Owner(body.producer_id, body.producer_epoch)
        current = self._owners.get(name)
        if asked.producer_id >= 0 and asked != current:
            if self._before.get(name) == asked:
                return 0, self._owners[name]  # its answer was lost
            return int(KafkaError.PRODUCER_FENCED), Owner(-1, -1)
        self._open.pop(name, None)
        self._ended.pop(name, None)
        self._before.pop(name, None)
        if asked.producer_id >= 0:
            self._before[name] = asked
        next_id = len(self._owners) + 1
        self._owners[name] = Owner(current.producer_id, current.epoch + 1) if current else Owner(next_id, 0)
        return 0, self._owners[name]

    def _add_partitions(self, body: Any) -> dict[Partition, int]:
        name = body.v3_and_below_transactional_id
        code = self._check(name, Owner(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch))
        if not code:
            self._open.setdefault(name, ([], {}))
            self._ended.pop(name, None)
        return {("t", 0): code}

    def _produce(self, body: Any) -> tuple[int, int]:
        batch = body.topic_data[0].partition_data[0].records
        header = read_header(memoryview(batch), 0)
        owner = Owner(header.producer_id, header.producer_epoch)
        if self._check(body.transactional_id, owner):
            return int(KafkaError.INVALID_PRODUCER_EPOCH), -1
        values = [bytes(each.value or b"") for each in decode_records(batch)]
        expected, offset = self._sequences.get(owner, (0, -1))
        if header.base_sequence == expected - len(values) and offset >= 0:
            return 0, offset  # it was stored, and the answer lost
        if header.base_sequence != expected:
            return int(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER), -1
        offset, self._end = self._end, self._end + len(values)
        self._sequences[owner] = (expected + len(values), offset)
        self._open[body.transactional_id][0].extend(values)
        return 0, offset

    def _commit_offsets(self, body: Any) -> dict[Partition, int]:
        if self.offsets_of_replaced is not None:
            self.offsets_of_replaced = None  # whoever hears of it looks for the new one
            return {("t", 0): int(KafkaError.NOT_COORDINATOR)}
        name = body.transactional_id
        code = self._check(name, Owner(body.producer_id, body.producer_epoch))
        if not code:
            for topic in body.topics:
                for each in topic.partitions:
                    kept = GroupOffset(each.committed_offset, each.committed_metadata)
                    self._open.setdefault(name, ([], {}))[1][topic.name, each.partition_index] = kept
        return {("t", 0): code}

    def _end_transaction(self, body: Any) -> int:
        name = body.transactional_id
        code = self._check(name, Owner(body.producer_id, body.producer_epoch))
        if code:
            return code
        if name not in self._open:
            repeated = self._ended.get(name) == body.committed
            return 0 if repeated else int(KafkaError.INVALID_TXN_STATE)
        messages, offsets = self._open.pop(name)
        self._ended[name] = body.committed
        if body.committed:
            self.committed += messages
            self.offsets |= offsets
            self._end += 1
        return 0

    def _fetch_offsets(self, body: Any) -> tuple[int, dict[Partition, tuple[GroupOffset, int]]]:
        known = self.offsets if self.offsets_of_replaced is None else self.offsets_of_replaced
        return 0, {partition: (each, 0) for partition, each in known.items()}


class FakeBrokers:
    """One client's way there. `fate` is what happens to a request.

    That is nothing (""), "request lost", "answer lost", or a "wrong answer" to what was carried out.
    """

    def __init__(self, cluster: FakeCluster, fate: Callable[[int], str]) -> None:
        self._cluster = cluster
        self._fate = fate

    def ask_coordinator(self, _key: str, _kind: int, request: Request[Any]) -> Any:
        return self._ask(request)

    def ask_leader(self, _partition: Partition, request: Request[Any]) -> Any:
        return self._ask(request)

    def refuted(self, code: int) -> None:
        pass

    def close(self) -> None:
        pass

    def _ask(self, request: Request[Any]) -> Any:
        fate = self._fate(request.api_key)
        if fate == "request lost":
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        answer = self._cluster.answer(request)
        if fate == "answer lost":
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        if fate == "wrong answer":
            raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE))
        return answer
