from __future__ import annotations

import io

import pytest
import typer
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from penstock.cli.messages import as_text, parse_start, start_at, without_newline


def test_lines_lose_their_newline_and_nothing_else() -> None:
    assert list(without_newline(io.BytesIO(b"a\n\n b \r\n\xff\nlast"))) == [
        b"a",
        b"",
        b" b \r",
        b"\xff",
        b"last",
    ]


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
