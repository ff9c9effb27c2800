"""Who may vote: a voter is a node *and* the storage it keeps its votes and its log on.

A node that lost its disk comes back with the same id and a new storage id. It has forgotten what it voted for
and what it acknowledged, so it does not count until the leader has taken it in anew; otherwise it could help
to elect a leader that lacks committed entries.

A cluster begins with node ids alone, from its configuration: seats whose storage is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


class Voter(NamedTuple):
    node_id: int
    storage_id: UUID


@dataclass(frozen=True, slots=True)
class VoterSet:
    seats: Mapping[int, UUID | None]
    """None: the seat is there, and nobody has sat down yet."""
    given_up: frozenset[int] = frozenset()
    """Seats that an operator took away, as who had them lost its disk. They are let in again."""

    @classmethod
    def of_ids(cls, node_ids: Iterable[int]) -> VoterSet:
        return cls(dict.fromkeys(sorted(node_ids)))

    @property
    def majority(self) -> int:
        return len(self.seats) // 2 + 1

    @property
    def open_seats(self) -> set[int]:
        return {node_id for node_id, storage_id in self.seats.items() if storage_id is None}

    def __contains__(self, voter: Voter) -> bool:
        if voter.node_id not in self.seats:
            return False
        return self.seats[voter.node_id] in (None, voter.storage_id)

    def seated(self, voter: Voter) -> VoterSet:
        """With this voter in the seat of its id, whoever had it before."""
        seats = dict(sorted({**self.seats, voter.node_id: voter.storage_id}.items()))
        return VoterSet(seats, self.given_up - {voter.node_id})

    def without(self, node_id: int) -> VoterSet:
        seats = {seat: storage for seat, storage in self.seats.items() if seat != node_id}
        return VoterSet(seats, self.given_up)
