"""Work shared out among tasks, and CSV that is cut in the middle of its lines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.pipelines.flights.csv_blocks import BLOCK_BYTES
from penstock.pipelines.flights.service import plan
from penstock.pipelines.flights.service.entry import Piece
from penstock.pipelines.flights.service.ledger import RowsReady
from penstock.pipelines.flights.service.reducing import _blocks, joined
from penstock.spark.offsets import OffsetRange, Partition


def ready(job: str, *pieces: Piece) -> RowsReady:
    return RowsReady(job, "header", "airports", pieces)


def test_nothing_to_do_is_no_task() -> None:
    assert plan.share([], 4) == []
    assert plan.share([ready("a")], 4) == []


def test_little_is_one_task() -> None:
    (parts,) = plan.share([ready("a", Piece("f", 1, 100)), ready("b", Piece("f", 101, 100))], 4)
    assert [part.job for part in parts] == ["a", "b"]


@pytest.mark.parametrize("tasks", [1, 2, 4, 7])
def test_every_byte_is_in_one_share_and_shares_are_even(tasks: int) -> None:
    chance = random.Random(tasks)
    jobs = []
    for name in "abcde":
        at, pieces = 1, []
        for _ in range(chance.randrange(1, 5)):
            length = chance.randrange(1, 3_000_000)
            pieces.append(Piece(name, at, length))
            at += length + chance.choice([0, 17])
        jobs.append(ready(name, *pieces))
    shares = plan.share(jobs, tasks)
    assert len(shares) <= tasks
    sizes = [sum(piece.length for part in parts for piece in part.pieces) for parts in shares]
    assert max(sizes) - min(sizes) <= tasks
    for job in jobs:
        found = [piece for parts in shares for part in parts if part.job == job.job for piece in part.pieces]
        covered = [at for piece in found for at in (piece.position, piece.position + piece.length)]
        assert covered == sorted(covered)
        assert sum(piece.length for piece in found) == sum(piece.length for piece in job.pieces)


@pytest.mark.parametrize("size", [1, 3, 10, 64])
def test_lines_of_pieces_that_are_cut_anywhere_come_once(tmp_path: Path, size: int) -> None:
    lines = [b"%d," % number + b"x" * (number % 13) + b"\n" for number in range(40)]
    text = b"".join(lines)
    path = tmp_path / "segment"
    path.write_bytes(b"\n" + text)
    pieces = plan.cut(Piece(str(path), 1, len(text)), size, size)
    assert b"".join(block or b"?" for block in _blocks(pieces)) == text


def test_small_blocks_are_joined_and_large_ones_are_not() -> None:
    large = b"l" * BLOCK_BYTES
    assert list(joined([b"a\n", b"b\n", large, large, None, b"c\n"])) == [
        b"a\nb\n" + large,
        large,
        None,
        b"c\n",
    ]


def test_ranges_of_offsets_are_cut_for_several_tasks() -> None:
    from penstock.pipelines.flights.service.source import cut

    busy, quiet = Partition("t", 0), Partition("t", 1)
    found = cut([OffsetRange(busy, 0, 510), OffsetRange(quiet, 7, 9)], 4)
    assert [(each.start, each.end) for each in found] == [
        (0, 128),
        (128, 256),
        (256, 384),
        (384, 510),
        (7, 9),
    ]
    assert cut([OffsetRange(busy, 5, 9)], 4) == [OffsetRange(busy, 5, 9)]
