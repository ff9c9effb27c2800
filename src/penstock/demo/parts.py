"""The living parts: started, heard and ended as the course says."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.demo.course import Course, Phase, Watched
from penstock.demo.ending import Process, supervisor_of
from penstock.demo.plan import CLUSTER, Part, Places
from penstock.demo.processes import Child
from penstock.supervisor.folder import ClusterFolder

if TYPE_CHECKING:
    from penstock.demo.guard import Guard


class Heard(NamedTuple):
    part: Part
    line: str
    became_ready: bool


class Ended(NamedTuple):
    watched: Watched
    tail: list[str]


class Adopted:
    """The successor of a supervisor that was killed: nobody's child, and it has a log of its own."""

    def __init__(self, process: Process) -> None:
        self.tail: deque[str] = deque()
        self.identity = process

    def lines(self) -> list[str]:
        return []

    def poll(self) -> int | None:
        return None if self.identity.lives else -signal.SIGKILL

    def terminate(self) -> None:
        self.identity.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.identity.signal(signal.SIGKILL)

    def close(self) -> None:
        pass


class LivingParts:
    def __init__(self, course: Course, places: Places, guard: Guard, environment: Mapping[str, str]) -> None:
        self._course = course
        self._places = places
        self._guard = guard
        self._environment = environment
        self._children: dict[str, Child | Adopted] = {}

    def start_due(self, now: float) -> Iterator[Part]:
        """Those that were started. OSError if there can be no process."""
        self._adopt_successor(now)
        for part in self._course.due(now):
            self._course.started(part.name, now)
            log = self._places.logs / f"{part.name}.log"
            child = Child(part.command, log, self._environment, part.niceness)
            if child.identity is not None:
                self._guard.watch(child.identity)
            self._children[part.name] = child
            yield part

    def look(self, now: float) -> Iterator[Heard | Ended]:
        """What they said, and who ended."""
        for name, child in list(self._children.items()):
            code = child.poll()  # before its last lines are read
            part = self._course[name].part
            for line in child.lines():
                yield Heard(part, line, became_ready=self._course.heard(name, line, now))
            if code is not None:
                del self._children[name]
                if child.identity is not None:
                    self._guard.forget(child.identity)
                child.close()
                yield Ended(self._course.ended(name, code, child.tail, now), list(child.tail))

    def terminate(self, name: str) -> None:
        self._course.retire(name)
        if name in self._children:
            self._children[name].terminate()

    def kill(self, name: str) -> None:
        if name in self._children:
            self._children[name].kill()

    def is_alive(self, name: str) -> bool:
        return name in self._children

    def _adopt_successor(self, now: float) -> None:
        cluster = self._course[CLUSTER]
        if cluster.phase is not Phase.DOWN or not cluster.is_wanted:
            return
        supervisor = supervisor_of(ClusterFolder(self._places.cluster))
        if supervisor is not None:
            self._course.adopted(CLUSTER, now)
            self._children[CLUSTER] = Adopted(supervisor)
