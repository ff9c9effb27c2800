"""Produce (0), versions 3–9: append batches to the partitions this broker leads.

Batches stay opaque: the header and the CRC are checked, offset and leader epoch are patched. Appending
happens at once, in the order of arrival; only the acknowledgement waits, for the batch to be committed. A
batch that an idempotent producer sends again is not appended again and gets the answer of the original,
which waits for the same commit.

Versions 0–2 are advertised and refused: librdkafka before 2.11.1 silently switches compression off
unless version 0 is listed.

A batch that begins a transaction in its partition is not appended before the transaction's coordinator has
said that it belongs there (see verifications.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.reply import Deferred, EncodedBody, NoResponse
from penstock.metadata.internal_topics import is_coordinators
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import HEADER_SIZE, BatchHeader, check_produced, read_header, with_log_append_time
from penstock.wire.compression import CompressionError
from penstock.wire.produce import PartitionAnswer, ProduceRequest, read_request, write_response
from penstock.wire.records import RecordsError, decode_records
from penstock.wire.registry import api

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.partition import Partition, WhenDone

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
_AS_PRODUCE_ERROR: Final = {
    # Come again: the coordinator cannot say, or is still ending the transaction before.
    ErrorCode.coordinator_not_available: ErrorCode.not_enough_replicas,
    ErrorCode.coordinator_load_in_progress: ErrorCode.not_enough_replicas,
    ErrorCode.not_coordinator: ErrorCode.not_enough_replicas,
    ErrorCode.concurrent_transactions: ErrorCode.not_enough_replicas,
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
}
"""What a coordinator says, in codes that producers know from this API."""


@api(0, 3, 9, advertised_from=0, decoder=read_request)
def produce(request: ProduceRequest, context: RequestContext) -> Deferred[EncodedBody | NoResponse]:
    if request.acks == ACKS_LEADER and not context.broker.lifecycle.has_lease:
        request = request._replace(acks=ACKS_ALL)  # another may lead by now: its word alone is worth nothing
    work = _Produce(context.api_version, request.acks)
    for topic in request.topics:
        answers: list[PartitionAnswer] = []
        work.topics.append((topic.name, answers))
        for index, records in topic.partitions:
            try:
                _check_request(request, topic.name)
                partition = _leading(topic.name, index, request.acks, context)
                batch = _checked(partition, records, context)
                if batch.begins_transaction:
                    work.hold(partition, answers, batch, request.transactional_id, context)
                    continue
                appended = _append(partition, batch, context)
            except ApiError as error:
                if records is not None and len(records) >= HEADER_SIZE:
                    _remember(topic.name, index, read_header(records), error, context)
                answers.append(work.refusal(index, error))
            else:
                answers.append(PartitionAnswer(index, 0))
                work.wait_for(partition, answers, len(answers) - 1, *appended)
    work.one_is_done()
    work.expire_after(request.timeout_ms)
    return work.answer


def _leading(topic: str, index: int, acks: int, context: RequestContext) -> Partition:
    """The partition, if it takes writes."""
    partition = context.broker.partitions.require(topic, index)
    if not partition.is_leader:
        raise ApiError(ErrorCode.not_leader_or_follower)
    if acks == ACKS_ALL and not partition.has_enough_replicas:
        raise ApiError(ErrorCode.not_enough_replicas, not_enough(partition))
    return partition


def _remember(topic: str, index: int, header: BatchHeader, error: ApiError, context: RequestContext) -> None:
    """For the batches behind this one; who is behind another himself is remembered with that one."""
    if not isinstance(error, BehindRefusedError):
        broker = context.broker
        broker.partitions.refused.refused((topic, index), header, error.code, broker.monotonic_ms())


def not_enough(partition: Partition) -> str:
    return (
        f"{partition.topic}-{partition.index} has too few in-sync replicas alive:"
        f" {list(partition.image.isr)}, of which it needs {partition.config.min_insync_replicas}"
    )


class RefusedRecordsError(ApiError):
    """Some records of a batch are to blame, so all of it is refused."""

    def __init__(self, message: str, places: list[int]) -> None:
        super().__init__(ErrorCode.invalid_record, message)
        self.places = places


class BehindRefusedError(ApiError):
    """A batch before this one was refused, and has not come again."""


class _Produce:
    """One request on its way: the answers so far, and how many partitions have not committed yet."""

    def __init__(self, version: int, acks: int) -> None:
        self.topics: list[tuple[str, list[PartitionAnswer]]] = []
        self.answer: Deferred[EncodedBody | NoResponse] = Deferred()
        self.failed = False
        self._version = version
        self._acks = acks
        self._undone = 1  # the appending itself, then one for each partition that has to commit
        self._waiting_for_others: list[WhenDone] = []
        self._expires_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def refusal(self, index: int, error: ApiError) -> PartitionAnswer:
        self.failed = True
        places = error.places if isinstance(error, RefusedRecordsError) else ()
        return PartitionAnswer(index, error.code, error_message=error.message, record_errors=places)

    def hold(
        self,
        partition: Partition,
        answers: list[PartitionAnswer],
        batch: _Checked,
        transactional_id: str | None,
        context: RequestContext,
    ) -> None:
        """Append the batch when its transaction is known to be open."""
        place = len(answers)
        answers.append(PartitionAnswer(partition.index, 0))
        self._undone += 1

        def verified(error: ApiError | None) -> None:
            try:
                if error is not None:
                    raise ApiError(_AS_PRODUCE_ERROR.get(error.code, error.code), error.message)
                appended = _append(partition, batch, context)
            except ApiError as refused:
                _remember(partition.topic, partition.index, batch.header, refused, context)
                answers[place] = self.refusal(partition.index, refused)
            else:
                self.wait_for(partition, answers, place, *appended)
            self.one_is_done()

        context.broker.transactions.verify_batch(partition, transactional_id, batch.header, verified)

    def wait_for(
        self,
        partition: Partition,
        answers: list[PartitionAnswer],
        place: int,
        base_offset: int,
        end_offset: int,
        append_time_ms: int,
    ) -> None:
        answers[place] = PartitionAnswer(
            partition.index, 0, base_offset, append_time_ms, partition.log_start_offset
        )
        self._undone += 1
        is_open = True

        def done(error: ApiError | None) -> None:
            nonlocal is_open
            if not is_open:
                return  # it took too long
            is_open = False
            if error is not None:
                answers[place] = PartitionAnswer(partition.index, error.code, error_message=error.message)
            self.one_is_done()

        if self._acks != ACKS_ALL:
            partition.when_flushed(end_offset, done)
            return
        partition.when_committed(end_offset, done)
        if is_open and len(partition.image.replicas) > 1:
            self._waiting_for_others.append(done)
            self._set_timer()

    def expire_after(self, timeout_ms: int) -> None:
        """The client waits no longer than this for other brokers; for our own disk it always waits.

        What is appended stays, and may be committed later.
        """
        self._expires_at = asyncio.get_running_loop().time() + max(timeout_ms, 0) / 1000
        self._set_timer()

    def _set_timer(self) -> None:
        """Once it is known until when, and as soon as there is something: a held batch comes later."""
        if self._timer is None and self._expires_at is not None and self._waiting_for_others:
            self._timer = asyncio.get_running_loop().call_at(self._expires_at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        waiting, self._waiting_for_others = self._waiting_for_others, []
        error = ApiError(ErrorCode.request_timed_out, "not all in-sync replicas have it yet")
        for done in waiting:
            done(error)

    def one_is_done(self) -> None:
        self._undone -= 1
        if self._undone:
            return
        self._waiting_for_others.clear()  # a cycle that only the collector would find
        if self._timer is not None:
            self._timer.cancel()
        if self._acks != ACKS_NONE:
            self.answer.resolve(EncodedBody([write_response(self.topics, self._version)]))
        else:
            # Nobody hears of it, but until now the request counted as one under way: a producer that
            # waits for nothing must not be faster than the disk for long.
            self.answer.resolve(NoResponse(close_after=self.failed))


def _check_request(request: ProduceRequest, topic: str) -> None:
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        raise ApiError(ErrorCode.invalid_required_acks, f"acks={request.acks}")
    if is_coordinators(topic):
        raise ApiError(ErrorCode.invalid_topic_exception, f"{topic} is written by the broker alone")


class _Checked(NamedTuple):
    """A batch that is as it should be."""

    data: bytes | memoryview
    header: BatchHeader
    append_time_ms: int
    """-1 where the producer's time counts."""
    begins_transaction: bool


def _checked(partition: Partition, records: memoryview | None, context: RequestContext) -> _Checked:
    header = check_produced(records)
    assert records is not None
    config = partition.config
    if header.size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.message_too_large, f"{header.size} bytes; the topic takes {config.max_message_bytes}"
        )
    now_ms = context.broker.now_ms()
    batch: bytes | memoryview = records
    append_time_ms = -1
    if config.is_log_append_time:
        append_time_ms = now_ms
        batch = with_log_append_time(records, now_ms)
        header = read_header(batch)
    elif header.max_timestamp > now_ms + config.message_timestamp_after_max_ms or (
        0 <= header.base_timestamp < now_ms - config.message_timestamp_before_max_ms
    ):
        raise ApiError(ErrorCode.invalid_timestamp, "the timestamp is out of the topic's range")
    if config.compact:
        _check_keys(batch, header)
    producers = partition.log.producers
    begins_transaction = (
        header.is_transactional
        and header.producer_id not in producers.transactions.open
        and not producers.has(header)
    )
    return _Checked(batch, header, append_time_ms, begins_transaction)


def _append(partition: Partition, batch: _Checked, context: RequestContext) -> tuple[int, int, int]:
    """(base offset, end offset, append time or -1) of the batch, appended now or when it first came."""
    header = batch.header
    if header.is_idempotent:
        refused = context.broker.partitions.refused
        if refused and not refused.is_empty(context.broker.monotonic_ms()):
            _check_not_behind(partition, header, context)
        duplicate = partition.log.producers.check(header)
        if duplicate is not None:
            context.broker.metrics.batches_duplicate += 1
            time_ms = duplicate.timestamp if partition.config.is_log_append_time else -1
            return duplicate.base_offset, duplicate.last_offset + 1, time_ms
    base_offset = partition.append(batch.data, header)
    return base_offset, base_offset + header.last_offset_delta + 1, batch.append_time_ms


def _check_not_behind(partition: Partition, header: BatchHeader, context: RequestContext) -> None:
    refused = context.broker.partitions.refused
    place = partition.topic, partition.index
    next_sequence = partition.log.producers.next_sequence(header.producer_id, header.producer_epoch)
    code = refused.blocking(place, header, next_sequence, context.broker.monotonic_ms())
    if code is not None:
        raise BehindRefusedError(code, "a batch before this one was refused, and has not come again")
    refused.accepted(place, header)


def _check_keys(batch: bytes | memoryview, header: BatchHeader) -> None:
    try:
        records = enumerate(decode_records(batch, header))
        places = [place for place, record in records if record.key is None]
    except (RecordsError, CompressionError) as error:
        raise ApiError(ErrorCode.corrupt_message, str(error)) from error
    if places:
        raise RefusedRecordsError("a compacted topic takes no records without a key", places)
