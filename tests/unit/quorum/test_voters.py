from __future__ import annotations

from uuid import UUID

from penstock.quorum.voters import Voter, VoterSet


def test_seats_that_were_given_up_are_remembered_until_they_are_taken_again() -> None:
    """Of five three have lost their disks: they come back one by one."""
    voters = VoterSet({4: UUID(int=4)}, frozenset({1, 2, 3}))
    voters = voters.seated(Voter(2, UUID(int=22)))
    assert (list(voters.seats), voters.given_up) == ([2, 4], {1, 3})
    voters = voters.without(2)
    assert (list(voters.seats), voters.given_up) == ([4], {1, 3})
