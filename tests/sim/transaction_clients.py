"""Applications that process their inputs exactly once.

An application has a transactional id and, mostly, a group for its position. Its instance takes the id over,
fetches the position, and goes on from there: each transaction writes what the next inputs come to, to several
partitions, together with the next position. Instances are killed, stopped for a while, or joined by a second
one; then there is a zombie that knows nothing of it. They send again whatever was not answered.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.peers.connection import PeerError
from penstock.types import ErrorCode, TopicPartition
from penstock.wire.batch import TRANSACTIONAL
from penstock.wire.produce import PartitionData, ProduceRequest, TopicData
from tests.sim.connections import Connections
from tests.sim.process_loop import ProcessLoop
from tests.sim.transaction_cluster import TOPIC
from tests.sim.transaction_truth import NO_INPUT, Message, Transaction, encode

if TYPE_CHECKING:
    from tests.sim.transaction_cluster import Cluster

PRODUCE, OFFSET_FETCH = (0, 3), (9, 8)
INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = (22, 4), (24, 3), (25, 3), (26, 3), (28, 3)
INPUTS = TopicPartition(TOPIC, 0)
"""Where the inputs are said to be."""
PEACEFUL_TIMEOUT_MS = 2000
"""Of transactions that begin after the faults: these shall be committed."""

AGAIN = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.unstable_offset_commit,
        ErrorCode.out_of_order_sequence_number,  # one that was sent before has not arrived
    }
)
FENCED = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
    }
)


class FencedError(Exception):
    """Another instance has taken over, or the transaction took too long."""


class AbortError(Exception):
    """The transaction cannot be committed any more."""


class Instance:
    def __init__(self, application: Application, number: int) -> None:
        self.application, self.cluster = application, application.cluster
        self.world, self.settings = self.cluster.world, self.cluster.settings
        self.client_id = application.client_id + number
        self.name = f"{application.transactional_id}/{number}"
        self.random = self.world.stream(f"instance {self.name}")
        self.loop = ProcessLoop(self.world)
        self.connections = Connections(self.cluster, self.client_id, self.loop)
        self.owner = (-1, -1)
        self.sequences: dict[TopicPartition, int] = {}
        self.position = 0
        self.commits = 0
        """Since the faults ended."""
        self.is_over = False
        self.loop.create_task(self.run())

    async def run(self) -> None:
        try:
            await self.init()
            if self.application.has_group:
                self.position = await self.fetch_position()
            while not self.application.is_done:
                await self.transaction()
                await self.pause(self.application.habits.idle_ms_max)
        except FencedError:
            self.note("is fenced")
        self.is_over = True
        self.application.ended()

    def note(self, what: str) -> None:
        self.world.note(f"{self.name} {what}")

    def detail(self, what: str) -> None:
        if self.world.is_detailed:
            self.note(what)

    async def pause(self, ms_max: int) -> None:
        await asyncio.sleep(self.random.randint(1, ms_max) / 1000)

    # Transactions

    async def transaction(self) -> None:
        transaction = self.cluster.truth.begin(self.application.transactional_id)
        self.detail(f"{self.owner} begins transaction {transaction.number}")
        try:
            inputs = await self.write(transaction)
            is_commit = self.world.is_peaceful or self.random.random() > self.application.habits.aborts
            if not is_commit and self.random.random() < 0.3:
                self.detail("does nothing for long")
                await asyncio.sleep(self.settings.transaction_timeout_ms * 1.5 / 1000)
            await self.end(transaction, is_commit=is_commit)
        except AbortError as error:
            self.detail(f"cannot go on: {error}")
            await self.abort_and_begin_anew()
            return
        if is_commit:
            self.position += inputs
            self.commits += self.world.is_peaceful

    async def write(self, transaction: Transaction) -> int:
        """How many inputs were processed."""
        count = self.random.randint(1, len(self.cluster.partitions))
        writing: list[asyncio.Task[ErrorCode]] = []
        inputs = 0
        try:
            for where in self.random.sample(self.cluster.partitions, count):
                await self.add_partition(where)
                for _ in range(self.random.randint(1, 2)):
                    messages = self.new_messages(transaction, where, inputs)
                    inputs += len(messages)
                    is_first = where not in self.sequences
                    writing.append(self.loop.create_task(self.produce(where, messages)))
                    if is_first:  # a log takes any first batch of a producer, so that one goes alone
                        await self.finish(writing)
            if self.application.has_group:
                await self.commit_position(self.position + inputs)
            await self.finish(writing)
        finally:
            for task in writing:
                task.cancel()
        return inputs

    def new_messages(self, transaction: Transaction, where: TopicPartition, inputs: int) -> list[Message]:
        numbers = range(inputs, inputs + self.random.randint(1, 2))
        position = self.position if self.application.has_group else None
        messages = [
            Message(transaction.number, each, NO_INPUT if position is None else position + each)
            for each in numbers
        ]
        transaction.messages.setdefault(where, []).extend(messages)
        return messages

    async def finish(self, writing: list[asyncio.Task[ErrorCode]]) -> None:
        """Wait for what is on its way, or lose patience and leave it there."""
        patience_s = None
        if not self.world.is_peaceful and self.random.random() < self.application.habits.impatience:
            patience_s = self.random.randint(5, 40) / 1000
        done, left = await asyncio.wait(writing, timeout=patience_s)
        errors = {task.result() for task in done} - {ErrorCode.none}
        if errors & FENCED:
            raise FencedError
        if errors or left:
            raise AbortError("not all is written")

    async def abort_and_begin_anew(self) -> None:
        """Under the next epoch: what became of some batches is not known, nor where their sequences are."""
        try:
            await self.end(None, is_commit=False)
        except AbortError:
            self.detail("has nothing to abort")
        await self.init(self.owner)

    # Requests

    async def ask(self, where: TopicPartition, api: tuple[int, int], body: Any, lane: str) -> Any:
        """Of whoever leads there, as far as is known. Raises PeerError."""
        leader = self.cluster.leader(where, self.random)
        if leader < 0:
            raise PeerError("nobody leads")
        return await self.connections.ask(
            leader, lane, lambda broker: broker.handle(*api, body), self.settings.client_request_ms_max
        )

    async def ask_coordinator(self, api: tuple[int, int], body: dict[str, Any]) -> Any:
        where = self.cluster.coordinator_of(self.application.transactional_id)
        return await self.ask(where, api, body, "transactions")

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.application.transactional_id,
            "producer_id": self.owner[0],
            "producer_epoch": self.owner[1],
        }

    async def init(self, owner: tuple[int, int] = (-1, -1)) -> None:
        timeout_ms = PEACEFUL_TIMEOUT_MS if self.world.is_peaceful else self.settings.transaction_timeout_ms
        body = {
            "transactional_id": self.application.transactional_id,
            "transaction_timeout": timedelta(milliseconds=timeout_ms),
            "producer_id": owner[0],
            "producer_epoch": owner[1],
        }
        while True:
            try:
                answer = await self.ask_coordinator(INIT, body)
            except PeerError:
                await self.pause(25)
                continue
            self.check(answer.error_code)
            if answer.error_code is ErrorCode.none:
                self.owner = answer.producer_id, answer.producer_epoch
                self.sequences.clear()
                self.note(f"is {self.owner}")
                return
            await self.pause(25)

    def check(self, error: ErrorCode) -> None:
        if error in FENCED:
            raise FencedError
        if error is not ErrorCode.none and error not in AGAIN:
            raise AbortError(error.name)

    async def until_done(self, ask: Any) -> None:
        while True:
            try:
                error = await ask()
            except PeerError:
                error = ErrorCode.request_timed_out
            self.check(error)
            if error is ErrorCode.none:
                return
            await self.pause(8)

    async def add_partition(self, where: TopicPartition) -> None:
        body = {f"v3_and_below_{name}": value for name, value in self.identity.items()}
        body["v3_and_below_topics"] = [{"name": where.topic, "partitions": [where.partition]}]

        async def ask() -> ErrorCode:
            answer = await self.ask_coordinator(ADD_PARTITIONS, body)
            return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

        await self.until_done(ask)

    async def produce(self, where: TopicPartition, messages: list[Message]) -> ErrorCode:
        sequence = self.sequences.get(where, 0)
        self.sequences[where] = sequence + len(messages)
        batch = memoryview(encode(messages, TRANSACTIONAL, self.owner, sequence))
        topics = [TopicData(where.topic, [PartitionData(where.partition, batch)])]
        request = ProduceRequest(self.application.transactional_id, -1, 500, topics)
        while True:
            try:
                answer = await self.ask(where, PRODUCE, request, "produce")
                error = produced(answer.buffers[0])
            except PeerError:
                error = ErrorCode.request_timed_out
            if error not in AGAIN:
                self.detail(f"{where}: {messages[0]} is answered {error.name}")
                return error
            await self.pause(8)

    async def commit_position(self, position: int) -> None:
        group_id = self.application.group_id

        async def add() -> ErrorCode:
            answer = await self.ask_coordinator(ADD_OFFSETS, self.identity | {"group_id": group_id})
            return ErrorCode(answer.error_code)

        await self.until_done(add)
        offset = {
            "partition_index": INPUTS.partition,
            "committed_offset": position,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        body = self.identity | {
            "group_id": group_id,
            "member_id": "",
            "group_instance_id": None,
            "generation_id": -1,
            "topics": [{"name": INPUTS.topic, "partitions": [offset]}],
        }

        async def commit() -> ErrorCode:
            where = self.cluster.group_coordinator_of(group_id)
            answer = await self.ask(where, COMMIT_OFFSETS, body, "groups")
            return ErrorCode(answer.topics[0].partitions[0].error_code)

        await self.until_done(commit)

    async def fetch_position(self) -> int:
        group_id = self.application.group_id
        wanted = [{"name": INPUTS.topic, "partition_indexes": [INPUTS.partition]}]
        body = {"groups": [{"group_id": group_id, "topics": wanted}], "require_stable": True}
        where = self.cluster.group_coordinator_of(group_id)
        while True:
            try:
                answer = await self.ask(where, OFFSET_FETCH, body, "groups")
                found = answer.groups[0].topics[0].partitions[0]
            except PeerError:
                await self.pause(8)
                continue
            if found.error_code is ErrorCode.none:
                self.note(f"is at {max(0, found.committed_offset)}")
                return max(0, found.committed_offset)
            self.check(found.error_code)
            await self.pause(8)

    async def end(self, transaction: Transaction | None, *, is_commit: bool) -> None:
        body = self.identity | {"committed": is_commit}
        is_first = True
        if transaction is not None and is_commit:
            transaction.is_commit_asked = True
        while True:
            try:
                answer = await self.ask_coordinator(END, body)
            except PeerError:
                is_first = False
                await self.pause(8)
                continue
            error = ErrorCode(answer.error_code)
            if error in AGAIN:
                # The outcome may have been written for all that.
                is_first = is_first and error is ErrorCode.coordinator_load_in_progress
                await self.pause(8)
                continue
            if transaction is not None:
                what = "commit" if is_commit else "abort"
                self.note(f"{what} of {transaction.number} is answered {error.name}")
                transaction.is_refused = is_first and error is not ErrorCode.none
                transaction.is_committed = is_commit and error is ErrorCode.none
            self.check(error)
            return


def produced(body: bytes) -> ErrorCode:
    """The error in the answer to a request for one partition."""
    (length,) = struct.unpack_from(">h", body, 4)
    return ErrorCode(struct.unpack_from(">h", body, 4 + 2 + length + 4 + 4)[0])


@dataclass(frozen=True)
class Habits:
    idle_ms_max: int
    aborts: float
    """How often a transaction is not committed."""
    impatience: float
    """How often it is ended while something is on its way."""


class Application:
    def __init__(self, cluster: Cluster, number: int, habits: Habits, *, has_group: bool) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.transactional_id = f"x{number}"
        self.group_id = f"g{number}"
        self.client_id = 1000 * number
        self.has_group, self.habits = has_group, habits
        self.random = self.world.stream(f"application {number}")
        self.instances: list[Instance] = []

    def start(self) -> None:
        self.world.note(f"{self.transactional_id}/{len(self.instances)} starts")
        self.instances.append(Instance(self, len(self.instances)))

    @property
    def is_done(self) -> bool:
        """It went on after the faults."""
        return any(instance.commits >= 2 for instance in self.instances)

    def ended(self) -> None:
        if not self.is_done and all(each.is_over or not each.loop.is_up for each in self.instances):
            self.start_later()

    def start_later(self) -> None:
        def start() -> None:
            if not self.is_done and all(each.is_over or not each.loop.is_up for each in self.instances):
                self.start()

        self.world.after(self.random.randint(1, 100), start)

    @property
    def living(self) -> list[Instance]:
        return [each for each in self.instances if each.loop.is_up and not each.is_over]

    def kill(self) -> None:
        for instance in self.living:
            instance.note("dies")
            instance.loop.die()
        self.start_later()

    def replace(self, pause_ms: int) -> None:
        """By another instance, while this one is alive; perhaps it is not heard for a while."""
        for instance in self.living:
            if pause_ms and not instance.loop.is_paused:
                instance.note(f"is stopped for {pause_ms} ms")
                instance.loop.pause()
                self.world.after(pause_ms, instance.loop.resume)
        self.start()

    def make_peace(self) -> None:
        for instance in self.living:
            instance.loop.resume()
