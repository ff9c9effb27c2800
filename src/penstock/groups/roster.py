"""The members of a group: found by id or by instance id, one of them the leader.

Order matters: members are kept as they joined, and the first becomes leader, so that the same history
always gives the same group.

Who waits in JoinGroup and who knows which protocol is counted as it changes, for every JoinGroup asks and a
group may be large. So `join_token` and `protocols` of a member are changed here and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.types import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.groups.member import Member, Protocols


class Roster:
    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static_ids: dict[str, str] = {}
        self._protocol_counts: Counter[str] = Counter()
        self.waiting_count = 0
        """Members whose JoinGroup waits for an answer."""
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def static(self, group_instance_id: str | None) -> Member | None:
        if group_instance_id is None or group_instance_id not in self._static_ids:
            return None
        return self._members[self._static_ids[group_instance_id]]

    def find(self, member_id: str, group_instance_id: str | None) -> Member | ErrorCode:
        """The member that a request speaks for, or why it may not."""
        if group_instance_id is not None:
            known = self.static(group_instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known.member_id != member_id:
                return ErrorCode.fenced_instance_id
        return self._members.get(member_id) or ErrorCode.unknown_member_id

    def add(self, member: Member) -> None:
        assert member.member_id not in self._members
        self._members[member.member_id] = member
        self.waiting_count += member.join_token is not None
        self._protocol_counts.update(_names(member.protocols))
        if member.group_instance_id is not None:
            self._static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: Member) -> None:
        del self._members[member.member_id]
        self.waiting_count -= member.join_token is not None
        self._discount(member.protocols)
        if member.group_instance_id is not None:
            del self._static_ids[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back under a new id; it keeps its place and its leadership."""
        assert member.group_instance_id is not None
        was_leader = self.leader_id == member.member_id
        self._members = {
            (member_id if one is member else one.member_id): one for one in self._members.values()
        }
        member.member_id = member_id
        self._static_ids[member.group_instance_id] = member_id
        if was_leader:
            self.leader_id = member_id

    def begin_waiting(self, member: Member, token: int) -> None:
        """The member's JoinGroup `token` waits from now on."""
        assert member.join_token is None
        member.join_token = token
        self.waiting_count += 1

    def end_waiting(self, member: Member) -> int | None:
        """The token that the member waited with, if it did; the caller answers it."""
        token, member.join_token = member.join_token, None
        self.waiting_count -= token is not None
        return token

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        if protocols != member.protocols:
            self._discount(member.protocols)
            self._protocol_counts.update(_names(protocols))
        member.protocols = protocols

    def _discount(self, protocols: Protocols) -> None:
        for name in _names(protocols):
            self._protocol_counts[name] -= 1
            if not self._protocol_counts[name]:
                del self._protocol_counts[name]

    def waiting_to_join(self) -> list[Member]:
        return [member for member in self._members.values() if member.join_token is not None]

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one who waits for an answer, for it must do the assignment."""
        leader = None if self.leader_id is None else self._members[self.leader_id]
        if leader is not None and leader.join_token is not None:
            return True
        joined = self.waiting_to_join()
        if joined:
            self.leader_id = joined[0].member_id
        return bool(joined)

    def common_protocols(self) -> frozenset[str]:
        return frozenset(filter(self._is_common, self._protocol_counts))

    def _is_common(self, name: str) -> bool:
        return self._protocol_counts[name] == len(self._members)

    def supports(self, protocols: Protocols) -> bool:
        return any(self._is_common(name) for name, _ in protocols)

    def select_protocol(self) -> str:
        """Each member votes for its favourite among the common protocols; the first of the most voted."""
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]


def _names(protocols: Protocols) -> set[str]:
    return {name for name, _ in protocols}
