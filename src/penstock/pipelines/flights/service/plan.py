"""Sharing out work: bytes of many jobs, in parts of about the same size for as many tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.pipelines.flights.service.entry import Piece

if TYPE_CHECKING:
    from penstock.pipelines.flights.service.ledger import RowsReady

PART_BYTES_MIN: Final = 1024 * 1024
"""Less is not worth a task, nor a file of its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """Of one job, what one task reduces. Pieces may begin and end in the middle of a line: a line belongs to
    the piece that it begins in."""

    job: str
    header: str
    airports: str
    pieces: tuple[Piece, ...]
    fastest_of_all: bool = False


def share(ready: Iterable[RowsReady], tasks: int) -> list[list[Part]]:
    """For at most so many tasks, each with something to do."""
    jobs = list(ready)
    total = sum(piece.length for job in jobs for piece in job.pieces)
    if not total:
        return []
    size = max(PART_BYTES_MIN, -(-total // tasks))
    shares: list[list[Part]] = [[]]
    left = size
    for job in jobs:
        pieces: list[Piece] = []
        for piece in job.pieces:
            for taken in cut(piece, left, size):
                pieces.append(taken)
                left -= taken.length
                if left <= 0:
                    shares[-1].append(_part(job, pieces))
                    shares.append([])
                    pieces, left = [], size
        if pieces:
            shares[-1].append(_part(job, pieces))
    return [parts for parts in shares if parts]


def cut(piece: Piece, first: int, others: int) -> list[Piece]:
    """In pieces of this size, the first of another one."""
    found: list[Piece] = []
    at, end = piece.position, piece.position + piece.length
    while at < end:
        until = min(end, at + (others if found else first))
        found.append(Piece(piece.path, at, until - at))
        at = until
    return found


def _part(job: RowsReady, pieces: Sequence[Piece]) -> Part:
    return Part(job.job, job.header, job.airports, tuple(pieces), job.fastest_of_all)
