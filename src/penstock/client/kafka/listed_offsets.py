"""AdminClient.list_offsets, with an error for each partition whose leader did not answer.

librdkafka asks all leaders at once and puts their answers together. For the partitions of one that does not
answer in time it gives an offset that is none, and no error.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec


def list_offsets(
    client: AdminClient, wanted: Mapping[TopicPartition, OffsetSpec], **options: Any
) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
    asked = client.list_offsets(dict(wanted), **options)
    return {partition: _answered(future) for partition, future in asked.items()}


def _answered(asked: Future[ListOffsetsResultInfo]) -> Future[ListOffsetsResultInfo]:
    answered: Future[ListOffsetsResultInfo] = Future()
    answered.set_running_or_notify_cancel()  # nobody can take a request back

    def take(done: Future[ListOffsetsResultInfo]) -> None:
        error = done.exception()
        if error is None and done.result().offset == OFFSET_INVALID:
            error = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no answer from the leader"))
        if error is not None:
            answered.set_exception(error)
        else:
            answered.set_result(done.result())

    asked.add_done_callback(take)
    return answered
