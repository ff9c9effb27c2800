"""Small transactions under an id that only one client has at a time.

Each writes messages and positions, and is over within a call. The coordinator knows who has the id: a new
client takes it over, which decides what the one before left open, and the older one can write no more.

A call that fails leaves a stage behind, and whoever comes next settles that first. `COMMITTING`: the commit
was asked for and not answered; asking again tells. `OPEN`: no commit was asked for, or it was refused; the
transaction is aborted, and the coordinator asked for the next epoch as the same producer. By that answer
a client that was replaced learns it. Whether a transaction happened is then read from the group's offsets,
which are written by it: `insist` calls its work again from the beginning, and that reads them.

The coordinator aborts what is open for too long, and some then refuse the producer as if it was replaced. So
when that time was over, or the answer to an earlier question was lost, it is the names in the offsets (`by`)
that tell whether somebody else was there. Only if nobody was, the id is taken over anew: a client that slept
for long must not take it from the one that has it now.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock.client.errors import InsufficientReplicasError, OutcomeUnknownError, PenstockError
from penstock.client.kafka.cluster import UNKNOWN_TOPIC_S
from penstock.client.kafka.failures import UNKNOWN_TOPIC, as_error, error_code
from penstock.client.kafka.raw.batch import SEQUENCES, encode_batch
from penstock.client.kafka.raw.brokers import Brokers, check
from penstock.client.kafka.raw.requests import (
    GROUP,
    NOBODY,
    TRANSACTION,
    GroupOffset,
    Request,
    add_offsets,
    add_partitions,
    commit_offsets,
    end_transaction,
    init_producer_id,
    produce,
)
from penstock.client.kafka.verdicts import Verdict, verdict

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster
    from penstock.client.pubsub.messages import Outgoing, Partition

T = TypeVar("T")

TRANSACTION_S_MAX: Final = 20.0
"""When the coordinator aborts by itself. Until then, readers wait for a client that was killed."""
DELIVERY_MS_MAX: Final = 4_000
"""How long a leader waits for its followers, before it says that they are too slow."""
RETRY_PAUSE_S: Final = 0.05
ENDING_PAUSE_S: Final = 0.003
"""While the transaction before is being ended, which takes the coordinator some milliseconds."""
CLOSE_S_MAX: Final = 2.0
FENCED: Final = frozenset({KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class Stage(Enum):
    NEW = "the id is not taken over yet"
    IDLE = "everything is decided"
    OPEN = "a transaction may be open"
    COMMITTING = "a commit was asked for"


class Transactional:
    def __init__(self, cluster: Cluster, name: str, fenced: Callable[[], PenstockError]) -> None:
        """`name` is the transactional id, and the group whose offsets are written."""
        self.cluster = cluster
        self.name = name
        self.brokers = Brokers(cluster.bootstrap)
        self.is_replaced: Callable[[], bool] = lambda: False
        """Whether the names in the offsets tell that somebody else was there. May raise KafkaException."""
        self._fenced = fenced
        self._is_fenced = False
        self._stage = Stage.NEW
        self._owner = NOBODY
        self._is_answer_lost = False
        """Whether the coordinator may have given the next epoch to this client without its knowing."""
        self._sequences: dict[Partition, int] = {}
        self._began = float("-inf")
        self._is_undecided = False
        """Whether what the present caller wants, or the one before it, may have happened."""
        self._topics: set[str] = set()

    def insist(self, work: Callable[[float], T], failed: str, unknown: str = "") -> T:
        """What `work(deadline)` returns, tried again after failures that pass; everything before is decided.

        `work` is called from its beginning each time, and raises KafkaException for the failures of brokers.
        An error says that it `failed`, or that it is `unknown` where the time limit came before an answer.
        """
        deadline = time.monotonic() + self.cluster.timeout_s
        is_first = True
        while True:
            if self._is_fenced:
                raise self._fenced()
            try:
                self._settle(deadline)
                if is_first:
                    is_first = self._is_undecided = False  # that was about what came before
                return work(deadline)
            except KafkaException as error:
                self._judge(error, failed)
                if time.monotonic() >= deadline:
                    raise self._late(error, failed, unknown) from error
            time.sleep(RETRY_PAUSE_S)

    def transact(
        self,
        outgoing: Sequence[tuple[Partition, Outgoing]],
        positions: Callable[[list[int]], Mapping[Partition, GroupOffset]],
        deadline: float,
    ) -> list[int]:
        """The offsets of the messages, committed together with the positions that follow from them."""
        self._topics = {topic for (topic, _), _ in outgoing}
        self._began = time.monotonic()
        self._is_undecided = False
        self._stage = Stage.OPEN
        offsets = self._store(outgoing, deadline)
        moved = positions(offsets)
        if moved:
            self._coordinate(lambda: [self._ask(add_offsets(self.name, self._owner, self.name))], deadline)
            self._ask_once(lambda: self._commit_offsets(moved))
        self._is_undecided = True
        self._stage = Stage.COMMITTING
        self._end(deadline)
        return offsets

    def fence(self) -> PenstockError:
        """Somebody else has the id: this is the end. The error that says so, now and ever after."""
        self._is_fenced = True
        self._stage = Stage.IDLE
        self.brokers.close()
        return self._fenced()

    def close(self) -> None:
        self._settle_soon()
        self.brokers.close()

    def _settle(self, deadline: float) -> None:
        """Makes an end of what the last call left behind."""
        if self._stage is Stage.COMMITTING:
            self._end(deadline)
        elif self._stage is not Stage.IDLE:
            self._abort(deadline)
            self._coordinate(lambda: [self._take_over()], deadline)
            self._stage = Stage.IDLE

    def _settle_soon(self) -> None:
        """For readers' sake, who wait until it is decided."""
        if self._stage in (Stage.OPEN, Stage.COMMITTING):
            with suppress(KafkaException):  # the coordinator does it when the transaction's time is over
                self._settle(time.monotonic() + CLOSE_S_MAX)

    def _end(self, deadline: float) -> None:
        request = end_transaction(self.name, self._owner, is_commit=True)
        self._coordinate(lambda: [self._ask(request)], deadline)
        self._stage = Stage.IDLE

    def _abort(self, deadline: float) -> None:
        if self._owner == NOBODY:
            return
        request = end_transaction(self.name, self._owner, is_commit=False)
        try:
            self._coordinate(lambda: [self._ask(request)], deadline)
        except KafkaException as error:
            # There was none, or this producer may not: that is told with the next epoch.
            if verdict(error_code(error)) is not Verdict.RENEW:
                raise

    def _take_over(self) -> int:
        """The next epoch of this producer, or a new one; what was open under the id is aborted."""
        request = init_producer_id(self.name, int(TRANSACTION_S_MAX * 1000), self._owner)
        was_lost, self._is_answer_lost = self._is_answer_lost, True
        code, owner = self._ask(request)
        if code == KafkaError.NO_ERROR:
            self._owner = owner
            self._sequences.clear()
        elif code in FENCED and self._owner != NOBODY:
            is_sure = not was_lost and time.monotonic() - self._began < TRANSACTION_S_MAX
            if is_sure or self.is_replaced():
                raise self.fence()
            self._owner = NOBODY
            code = KafkaError.CONCURRENT_TRANSACTIONS  # asks again
        self._is_answer_lost = was_lost and code != KafkaError.NO_ERROR
        return code

    def _judge(self, error: KafkaException, failed: str) -> None:
        """Prepares the next attempt, or raises what there is no next attempt for."""
        found = verdict(error_code(error))
        if found is Verdict.HOPELESS:
            self._settle_soon()
            raise as_error(error, failed) from error
        if found is not Verdict.AGAIN:
            self._stage = Stage.OPEN
        if found is Verdict.FORGOTTEN:
            self._owner = NOBODY

    def _late(self, error: KafkaException, failed: str, unknown: str) -> PenstockError:
        if self._is_undecided:
            return OutcomeUnknownError(str(self.cluster.silence(unknown, error)))
        with suppress(KafkaException):  # nobody answers this either, and that is the answer
            if any(self.cluster.lacks_replicas(topic) for topic in self._topics):
                return InsufficientReplicasError(
                    f"{failed}: too few replicas are in sync, for {self.cluster.timeout_s:g} s"
                )
        return self.cluster.silence(failed, error)

    def _store(self, outgoing: Sequence[tuple[Partition, Outgoing]], deadline: float) -> list[int]:
        places: dict[Partition, list[int]] = defaultdict(list)
        for place, (partition, _) in enumerate(outgoing):
            places[partition].append(place)
        if places:
            request = add_partitions(self.name, self._owner, places)
            self._coordinate(lambda: self._ask(request).values(), deadline)
        offsets = [-1] * len(outgoing)
        for partition, every in places.items():
            first = self._produce(partition, [outgoing[place][1] for place in every], deadline)
            for offset, place in enumerate(every, first):
                offsets[place] = offset
        return offsets

    def _produce(self, partition: Partition, messages: Sequence[Outgoing], deadline: float) -> int:
        """The offset of the first. The same batch may be sent often, and is stored once."""
        sequence = self._sequences.get(partition, 0)
        batch = encode_batch(messages, self._owner, sequence, int(time.time() * 1000))
        request = produce(self.name, partition, batch, DELIVERY_MS_MAX)
        first = -1

        def ask() -> list[int]:
            nonlocal first
            code, first = self.brokers.ask_leader(partition, request)
            return [code]

        self._coordinate(ask, deadline)
        self._sequences[partition] = (sequence + len(messages)) % SEQUENCES
        return first

    def _commit_offsets(self, moved: Mapping[Partition, GroupOffset]) -> Iterable[int]:
        request = commit_offsets(self.name, self._owner, self.name, moved)
        return self.brokers.ask_coordinator(self.name, GROUP, request).values()

    def _ask(self, request: Request[T]) -> T:
        return self.brokers.ask_coordinator(self.name, TRANSACTION, request)

    def _ask_once(self, ask: Callable[[], Iterable[int]]) -> None:
        """For what was decided on by what the group's coordinator had said.

        One that refuses now, or does not answer, may have been replaced before it said that: `insist` reads
        again, from its successor.
        """
        for code in ask():
            self.brokers.refuted(code)
            check(code)

    def _coordinate(self, ask: Callable[[], Iterable[int]], deadline: float) -> None:
        """Asks until all of the codes are 0, or one of them does not pass.

        A topic that stays unknown was deleted, and whoever began with it looks again.
        """
        unknown_until = min(deadline, time.monotonic() + UNKNOWN_TOPIC_S)
        while True:
            try:
                self._ask_once(ask)
            except KafkaException as error:
                code = error_code(error)
                until = unknown_until if code in UNKNOWN_TOPIC else deadline
                if verdict(code) is not Verdict.AGAIN or time.monotonic() >= until:
                    raise
                is_ending = code == KafkaError.CONCURRENT_TRANSACTIONS
                time.sleep(ENDING_PAUSE_S if is_ending else RETRY_PAUSE_S)
            else:
                return
