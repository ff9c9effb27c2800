"""Replicas of partitions, as the controller is asked to change them, and elections by their order (KIP-455).

AlterPartitionReassignments takes the replicas that a partition shall have, the preferred leader first. With
the brokers that it has already, in another order, nothing is copied and it is done at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import ElectionType, KafkaError, TopicPartition

from penstock.cli.cluster_requests import NoAnswerError, ask_broker, ask_cluster
from penstock.cli.kafka import answer, cluster_metadata
from penstock.cli.output import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from confluent_kafka.admin import AdminClient

    from penstock.types import ErrorCode

ALTER_PARTITION_REASSIGNMENTS: Final = (45, 0)
LIST_PARTITION_REASSIGNMENTS: Final = (46, 0)
DESCRIBE_LOG_DIRS: Final = (35, 1)
"""The only version that every Kafka of the last years has, and Penstock."""
SILENCE_S_MAX: Final = 30.0
"""Without an answer of the controller, as while another one is elected."""
ASK_AGAIN_S: Final = 0.5

Replicas = tuple[int, ...]
Failures = dict[int, str]
"""By partition: why it was not done."""
Sizes = dict[tuple[int, int], int]
"""In bytes, by broker and partition."""


class Ongoing(NamedTuple):
    """A reassignment under way."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def original(self) -> Replicas:
        return tuple(each for each in self.replicas if each not in self.adding)

    @property
    def target(self) -> Replicas:
        return tuple(each for each in self.replicas if each not in self.removing)


class Reassignments:
    """Of the partitions of one topic."""

    def __init__(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        self._admin = admin
        self._bootstrap = bootstrap
        self._topic = topic

    def alter(self, targets: Mapping[int, Replicas | None]) -> Failures:
        """Begin to move these partitions; None cancels the move of one."""
        from penstock.types import ErrorCode

        partitions = [{"partition_index": index, "replicas": each} for index, each in targets.items()]
        body = {"topics": [{"name": self._topic, "partitions": partitions}]}
        told = self._ask(ALTER_PARTITION_REASSIGNMENTS, body)
        cancelled = {index for index, target in targets.items() if target is None}
        return {
            each.partition_index: line_of(each.error_code, each.error_message)
            for topic in told.responses
            for each in topic.partitions
            if each.error_code is not ErrorCode.none
            and not (
                # It has just ended, or the first answer was lost: nothing is left to cancel.
                each.error_code is ErrorCode.no_reassignment_in_progress and each.partition_index in cancelled
            )
        }

    def ongoing(self, partitions: Collection[int]) -> dict[int, Ongoing]:
        body = {"topics": [{"name": self._topic, "partition_indexes": list(partitions)}]}
        told = self._ask(LIST_PARTITION_REASSIGNMENTS, body)
        return {
            each.partition_index: Ongoing(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in told.topics
            for each in topic.partitions
        }

    def sizes(self, partitions: Collection[int]) -> Sizes:
        """Of the replicas of these partitions, as far as their brokers answer."""
        brokers: list[Any] = list(cluster_metadata(self._admin, self._bootstrap).brokers.values())
        body = {"topics": [{"topic": self._topic, "partitions": list(partitions)}]}
        sizes: Sizes = {}
        for broker in brokers:
            try:
                told = ask_broker(broker.host, broker.port, DESCRIBE_LOG_DIRS, body)
            except NoAnswerError:
                continue
            for folder in told.results:
                for topic in folder.topics:
                    for each in topic.partitions:
                        if not each.is_future_key:  # a copy from one disk of the broker to another
                            sizes[broker.id, each.partition_index] = each.partition_size
        return sizes

    def elect_preferred(self, partitions: Collection[int]) -> Failures:
        """Make the first replicas leaders."""
        if not partitions:
            return {}
        asked = [TopicPartition(self._topic, index) for index in partitions]
        outcomes = answer(self._admin.elect_leaders(ElectionType.PREFERRED, asked))
        return {
            where.partition: (error.str() or error.name()).rstrip(".")
            for where, error in outcomes.items()
            if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED
        }

    def _ask(self, api: tuple[int, int], body: dict[str, Any]) -> Any:
        from penstock.types import ErrorCode

        deadline = time.monotonic() + SILENCE_S_MAX
        while True:
            told = ask_cluster(cluster_metadata(self._admin, self._bootstrap), api, body)
            if told.error_code is ErrorCode.none:
                return told
            passes = told.error_code in (ErrorCode.request_timed_out, ErrorCode.not_controller)
            if not passes or time.monotonic() >= deadline:
                raise CommandFailed(line_of(told.error_code, told.error_message))
            time.sleep(ASK_AGAIN_S)


def line_of(code: ErrorCode, message: str | None) -> str:
    return (message or code.name).rstrip(".")


def require_all(topic: str, failures: Mapping[int, str]) -> None:
    """CommandFailed with the first of the failures, if there are any."""
    if failures:
        first = min(failures)
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        raise CommandFailed(f"{topic}-{first}: {failures[first]}{more}")


def ids(replicas: Replicas) -> str:
    return ",".join(map(str, replicas))
