from __future__ import annotations

import io
from typing import Any

import pytest
import typer
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition

from penstock.cli.messages import as_text, key_bytes, parse_start, send_all, start_at, without_newline


def test_lines_lose_their_newline_and_nothing_else() -> None:
    assert list(without_newline(io.BytesIO(b"a\n\n b \r\n\xff\nlast"))) == [
        b"a",
        b"",
        b" b \r",
        b"\xff",
        b"last",
    ]


class FakeProducer:
    """Takes lines that are not too long, and delivers them when it is flushed."""

    def __init__(self) -> None:
        self.queue: list[bytes] = []
        self.delivered: list[bytes] = []

    def produce(self, _topic: str, line: bytes, _key: bytes | None, on_delivery: Any) -> None:
        assert on_delivery
        if len(line) > 3:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too long"))
        self.queue.append(line)

    def poll(self, _timeout: float) -> int:
        return 0

    def flush(self, _timeout: float) -> int:
        if self.queue:
            self.delivered.append(self.queue.pop(0))
        return len(self.queue)


def test_what_came_before_a_refused_line_is_delivered() -> None:
    producer = FakeProducer()
    delivery = send_all(producer, "t", None, iter([b"a", b"b", b"long", b"c"]))  # type: ignore[arg-type]
    assert producer.delivered == [b"a", b"b"]
    assert (delivery.sent, delivery.failed) == (3, 1)
    assert delivery.reason == "too long (MSG_SIZE_TOO_LARGE)"


def test_a_key_is_sent_as_it_was_typed() -> None:
    assert [key_bytes(key) for key in (None, "", "ä", "\udcff")] == [None, b"", "ä".encode(), b"\xff"]


def test_where_to_start() -> None:
    starts = [parse_start(text) for text in (None, "beginning", "end", "0", "17")]
    assert starts == [None, OFFSET_BEGINNING, OFFSET_END, 0, 17]
    for wrong in ("-1", "middle", "1.5", ""):
        with pytest.raises(typer.BadParameter):
            parse_start(wrong)


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    assert [as_text(value) for value in (None, b"a", b"\xff")] == [None, "a", "\ufffd"]


def test_a_partition_starts_at_the_offset_only_the_first_time_it_comes() -> None:
    assigned = []

    class FakeConsumer:
        def assign(self, partitions: list[TopicPartition]) -> None:
            assigned.append([(each.partition, each.offset) for each in partitions])

    on_assign = start_at({0: 7, 1: 8})
    on_assign(FakeConsumer(), [TopicPartition("t", 0, 3)])  # type: ignore[arg-type]
    on_assign(FakeConsumer(), [TopicPartition("t", 0, 9), TopicPartition("t", 1, 4)])  # type: ignore[arg-type]
    assert assigned == [[(0, 7)], [(0, 9), (1, 8)]]
