"""The positions of a subscriber, as they are kept in its group's offsets, and where it goes on from them.

Beside the offset, the metadata has `from`, where the subscription begins: nothing before it is delivered,
whatever position an application comes with. `by` is the life of the subscriber that wrote it, and `n` which
of its writes it was: by these a subscriber that was cut off finds out what became of its last write, or that
another one has taken its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.groups.marks import SUBSCRIPTION, mark_of, state_of, with_state


@dataclass(frozen=True, slots=True)
class Position:
    offset: int
    """The next message that is not got."""
    since: int = 0
    by: str = ""
    n: int = 0

    def at(self, offset: int) -> Position:
        return replace(self, offset=offset)

    def written(self, by: str, n: int) -> Position:
        return replace(self, by=by, n=n)

    def start(self, own: int | None) -> int:
        """Where to go on, for an application that has stored `own` as its position."""
        return self.offset if own is None else max(own, self.since)

    def metadata(self) -> str:
        return with_state(SUBSCRIPTION, {"from": self.since, "by": self.by, "n": self.n})


def parse(offset: int, metadata: str | None) -> Position | None:
    """None for an offset that is no subscription. One without a mark was set by hand, to go on from there."""
    if offset < 0 or (metadata and mark_of(metadata) != SUBSCRIPTION):
        return None
    state = state_of(metadata, SUBSCRIPTION) or {}
    since, by, n = state.get("from"), state.get("by"), state.get("n")
    return Position(
        offset,
        since if isinstance(since, int) else 0,
        by if isinstance(by, str) else "",
        n if isinstance(n, int) else 0,
    )
