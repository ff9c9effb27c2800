"""How long a group goes without a sign of life from a member, or from somebody who was given a member id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.groups.alarms import Alarms

if TYPE_CHECKING:
    from penstock.groups.member import Member
    from penstock.groups.roster import Roster


class Sessions:
    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._alarms: Alarms[str] = Alarms()
        """By member id."""
        self.pending: dict[str, int] = {}
        """Member ids that were handed out and not used yet, with the time they are forgotten."""

    def hand_out(self, member_id: str, deadline_ms: int) -> None:
        """Somebody was told to join with this id, and has until the deadline."""
        self.pending[member_id] = deadline_ms
        self._alarms.set(member_id, deadline_ms)

    def take_pending(self, member_id: str) -> bool:
        """Whether the id was handed out and not used; it is no longer pending."""
        if self.pending.pop(member_id, None) is None:
            return False
        self._alarms.forget(member_id)
        return True

    def refresh(self, member: Member, now_ms: int) -> None:
        """The member gave a sign of life. While a request of it waits here it cannot, and need not."""
        if member.join_token is None and member.sync_token is None:
            member.session_deadline_ms = now_ms + member.session_timeout_ms
            self.watch(member)

    def watch(self, member: Member) -> None:
        """The member is new, or has a new id or deadline."""
        if member.session_deadline_ms is not None:
            self._alarms.set(member.member_id, member.session_deadline_ms)

    def forget(self, member_id: str) -> None:
        self._alarms.forget(member_id)

    def next_deadline(self) -> int | None:
        """When to look next; nobody may be due then, but nobody is due earlier."""
        return self._alarms.next_ms()

    def take_due(self, now_ms: int) -> tuple[list[Member], list[str]]:
        """Members that fell silent, and ids that nobody came back with; those are no longer pending."""
        silent: list[Member] = []
        stale: list[str] = []
        for member_id in self._alarms.take_due(now_ms):
            member = self._roster.get(member_id)
            deadline_ms = self.pending.get(member_id) if member is None else member.session_deadline_ms
            if deadline_ms is None:
                continue  # a request of the member waits here
            if deadline_ms > now_ms:
                self._alarms.set(member_id, deadline_ms)
            elif member is not None:
                silent.append(member)
            else:
                del self.pending[member_id]
                stale.append(member_id)
        return silent, stale
