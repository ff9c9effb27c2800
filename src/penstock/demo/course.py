"""What is started when, what is started again, and what is given up: pure.

A service that ends is started again after a delay, as often as its part allows; a job that fails likewise.
Who has been well for a while begins to be counted anew, so that faults which somebody tries for an hour cost
nothing, while a part that cannot live is given up in seconds, with its reason. Who does not
even begin, and gives the same reason for it twice, has said all that it will say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.supervisor.restarts import BackOff

if TYPE_CHECKING:
    from penstock.demo.plan import Part

COMPLAINT: Final = "penstock: "
"""How the line of a command begins that says why it failed."""
BACK_OFF: Final = BackOff(first_s=1.0, max_s=4.0, settled_s=30.0)


class Phase(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    DOWN = "down"
    DONE = "done"
    GIVEN_UP = "given up"
    STOPPED = "stopped"


LIVING: Final = (Phase.STARTING, Phase.RUNNING)


@dataclass(slots=True)
class Watched:
    part: Part
    phase: Phase = Phase.WAITING
    since: float = 0.0
    start_at: float = 0.0
    starts: int = 0
    ends: int = 0
    """In a row, without having been well in between."""
    reason: str = ""
    """Why it ended last."""
    is_wanted: bool = True

    @property
    def lives(self) -> bool:
        return self.phase in LIVING


class Course:
    """Times are seconds of one monotonic clock."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._watched = {part.name: Watched(part) for part in parts}
        self._reached: set[str] = set()

    def __getitem__(self, name: str) -> Watched:
        return self._watched[name]

    def __iter__(self) -> Iterator[Watched]:
        return iter(self._watched.values())

    def due(self, now: float) -> list[Part]:
        """Who is to be started now."""
        return [
            each.part
            for each in self._watched.values()
            if each.is_wanted
            and (
                (each.phase is Phase.WAITING and self._reached.issuperset(each.part.after))
                or (each.phase is Phase.DOWN and each.start_at <= now)
            )
        ]

    def started(self, name: str, now: float) -> None:
        each = self._watched[name]
        assert not each.lives, "a part is one process"
        each.phase, each.since, each.starts = Phase.STARTING, now, each.starts + 1

    def adopted(self, name: str, now: float) -> None:
        """Somebody else has started it, and it is well."""
        each = self._watched[name]
        each.phase, each.since, each.reason = Phase.RUNNING, now, ""

    def heard(self, name: str, line: str, now: float) -> bool:
        """A line of its output: whether it made the part ready."""
        each = self._watched[name]
        if each.phase is not Phase.STARTING or each.part.ready is None or not each.part.ready.search(line):
            return False
        each.phase, each.since, each.reason = Phase.RUNNING, now, ""
        self._reached.add(name)
        return True

    def reach(self, milestone: str) -> None:
        self._reached.add(milestone)

    def has_reached(self, milestone: str) -> bool:
        return milestone in self._reached

    def retire(self, name: str) -> None:
        """It is about to be stopped, and not to be started again."""
        each = self._watched[name]
        each.is_wanted = False
        if not each.lives and each.phase not in (Phase.DONE, Phase.GIVEN_UP):
            each.phase = Phase.STOPPED

    def ended(self, name: str, code: int, tail: Sequence[str], now: float) -> Watched:
        """The process is gone; what becomes of the part is in the answer."""
        each = self._watched[name]
        was_ready = each.phase is Phase.RUNNING
        was_well = was_ready and now - each.since >= BACK_OFF.settled_s
        each.since = now
        if each.part.is_job and code == 0:
            each.phase = Phase.DONE
            self._reached.add(name)
            return each
        if not each.is_wanted:
            each.phase = Phase.STOPPED
            return each
        said_before, each.reason = each.reason, reason_of(code, tail)
        each.ends = 1 if was_well else each.ends + 1
        refused = code > 0 and not was_ready
        if (
            each.ends > each.part.restarts_max
            or (refused and each.part.is_essential and each.starts == 1)
            or (refused and each.reason == said_before)
        ):
            each.phase = Phase.GIVEN_UP
        else:
            each.phase, each.start_at = Phase.DOWN, now + each.part.again_s * BACK_OFF.delay(each.ends)
        return each


def reason_of(code: int, tail: Sequence[str]) -> str:
    """The command's own word, or how it ended with the last of what it said."""
    complaints = [line for line in tail if line.startswith(COMPLAINT)]
    if complaints and code > 0:
        return complaints[-1].removeprefix(COMPLAINT)
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    said = next((line.strip() for line in reversed(tail) if line.strip()), "")
    return f"{how}; its last words: {said}" if said and code > 0 else how
