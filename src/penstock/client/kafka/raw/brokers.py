"""Asking the broker that can answer: a coordinator, the leader of a partition, or anybody.

One question at a time. Whoever did not answer, or says that it is not the one, is forgotten: the next
attempt, which is the caller's, looks for the right one again.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock.client.kafka.cluster import CLIENT_ID, split_addresses
from penstock.client.kafka.raw.fields import Fields, int16, int32, string
from penstock.client.kafka.raw.requests import Address, Request, find_coordinator, leaders_of

if TYPE_CHECKING:
    from penstock.client.pubsub.messages import Partition

T = TypeVar("T")

CONNECT_S_MAX: Final = 1.0
ANSWER_S_MAX: Final = 5.0
FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
ELSEWHERE: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)


class Brokers:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = [Address(*each) for each in split_addresses(bootstrap)]
        self._connections: dict[Address, Connection] = {}
        self._coordinators: dict[tuple[str, int], Address] = {}
        self._leaders: dict[Partition, Address] = {}

    def ask_coordinator(self, key: str, kind: int, request: Request[T]) -> T:
        """Raises KafkaException when there is no answer."""
        if (key, kind) not in self._coordinators:
            found = self._ask_anybody(find_coordinator(key, kind))
            check(found.error)
            self._coordinators[key, kind] = found.address
        try:
            return self._ask(self._coordinators[key, kind], request)
        except KafkaException:
            self._coordinators.pop((key, kind), None)
            raise

    def ask_leader(self, partition: Partition, request: Request[T]) -> T:
        if partition not in self._leaders:
            self._leaders[partition] = self._find_leader(partition)
        try:
            return self._ask(self._leaders[partition], request)
        except KafkaException:
            self._leaders.pop(partition, None)
            raise

    def refuted(self, code: int) -> None:
        """An answer says that somebody else is to be asked."""
        if code in ELSEWHERE:
            self._coordinators.clear()
            self._leaders.clear()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _find_leader(self, partition: Partition) -> Address:
        topic, index = partition
        found = self._ask_anybody(leaders_of(topic))
        check(found.error)
        leader = found.addresses.get(found.leaders.get(index, -1))
        if leader is None:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return leader

    def _ask_anybody(self, request: Request[T]) -> T:
        known = list(dict.fromkeys([*self._connections, *self._bootstrap]))
        for address in known[:-1]:
            with suppress(KafkaException):  # the next one may answer
                return self._ask(address, request)
        return self._ask(known[-1], request)

    def _ask(self, address: Address, request: Request[T]) -> T:
        connection = self._connections.get(address)
        try:
            if connection is None:
                connection = self._connections[address] = Connection(address)
            return connection.ask(request)
        except (OSError, ValueError) as error:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, f"{address.host}: {error}")) from error
        finally:
            if connection is not None and not connection.is_usable:
                del self._connections[address]


class Connection:
    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, CONNECT_S_MAX)
        self._socket.settimeout(ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._asked = 0
        self.is_usable = True

    def ask(self, request: Request[T]) -> T:
        """OSError if nobody answers, ValueError if it is no answer. Then the connection is of no more use."""
        self.is_usable = False
        try:
            self._asked = (self._asked + 1) % 2**31
            self._send(request)
            fields = Fields(self._receive())
            if fields.int32() != self._asked:
                raise ValueError("an answer to another request")
            if request.is_flexible:
                fields.tags()
            answer = request.decode(fields)
            self.is_usable = True
            return answer
        finally:
            if not self.is_usable:
                self.close()

    def close(self) -> None:
        self._socket.close()

    def _send(self, request: Request[T]) -> None:
        header = int16(request.api_key) + int16(request.version) + int32(self._asked) + string(CLIENT_ID)
        frame = header + (b"\0" if request.is_flexible else b"") + request.body
        self._socket.sendall(int32(len(frame)) + frame)

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise ValueError("an answer of a size that cannot be")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the connection was closed")
            data += more
        return bytes(data)


def check(code: int) -> None:
    if code:
        raise KafkaException(KafkaError(code))
