"""One publisher or subscriber process through all its lives."""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.managed_process import ROOT, ManagedProcess, environment_with
from tests.support.publish_subscribe.checker import MessageId
from tests.support.publish_subscribe.journal import Journals
from tests.support.publish_subscribe.task import STOP

if TYPE_CHECKING:
    from tests.support.publish_subscribe.task import Task

PROGRESS = ("done", "got", "copied")
BLIND_KILLS = 0.3
"""Of the clients, those that die whether or not they have done anything yet."""
BLIND_S_MAX = 2.0
AFTER_PROGRESS_S_MAX = 1.5


class Life(ManagedProcess):
    """One of a client's processes: a paused one is still there when the next has begun."""

    def __init__(self, task: Task, module: str) -> None:
        name = f"{task.name} in life {task.life}"
        super().__init__(name, task.place / "errors", environment=environment_with(ROOT), cwd=ROOT)
        self._command = [sys.executable, "-m", module, *task.arguments()]

    def command(self) -> list[str]:
        return self._command


@dataclass
class Zombie:
    process: Life
    resumed: float | None = None


class Client:
    def __init__(self, task: Task, module: str, chance: random.Random) -> None:
        self.task = task
        self.journals = Journals(task.place)
        self.newest: dict[tuple[str, str], int] = {}
        """By publisher and topic, the highest number that was got."""
        self.subscribed: set[str] = set()
        self._progress_in = 0
        """The newest life that has done something."""
        self.lives = 0
        self.kills = 0
        self._life: Life | None = None
        self.zombie: Zombie | None = None
        self._module = module
        self._chance = chance
        self._after_progress_s: float | None = None
        self._due: float = 0.0
        task.place.mkdir(parents=True)

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def can_be_paused(self) -> bool:
        """What a subscriber keeps beside its position is its own: two lives would both write it."""
        return self.task.style in ("again", "known", "ask", "get") and self.has_progress

    @property
    def has_progress(self) -> bool:
        """In this life."""
        self.observe()
        return self._progress_in == self.lives

    def observe(self, first: int | None = None) -> None:
        """What came since the last time, in this life and the one before, or in all from `first` on."""
        for life, record in self.journals.read(self.lives - 1 if first is None else first):
            if record["kind"] in PROGRESS:
                self._progress_in = max(self._progress_in, life)
            if record["kind"] == "got":
                publisher, topic, seq = MessageId.of(record["value"])
                self.newest[publisher, topic] = max(self.newest.get((publisher, topic), 0), seq)
            elif record["kind"] == "subscribed":
                self.subscribed.add(record["topic"])

    def spawn(self) -> None:
        self.lives += 1
        self._life = Life(self.task.in_life(self.lives), self._module)
        self._life.spawn()
        is_blind = self._chance.random() < BLIND_KILLS
        self._due = time.monotonic() + self._chance.uniform(0, BLIND_S_MAX) if is_blind else 0.0
        self._after_progress_s = None if is_blind else self._chance.uniform(0, AFTER_PROGRESS_S_MAX)

    @property
    def is_due(self) -> bool:
        if self._after_progress_s is not None and self.has_progress:
            self._due = time.monotonic() + self._after_progress_s
            self._after_progress_s = None
        return self._after_progress_s is None and time.monotonic() >= self._due

    @property
    def process(self) -> Life:
        """That of this life."""
        assert self._life is not None
        return self._life

    @property
    def exit_code(self) -> int | None:
        return self.process.exit_code

    def check_alive(self) -> None:
        code = self.exit_code
        assert code is None, f"{self.name} ended by itself with {code}:\n{self.errors}"

    def kill(self) -> None:
        self.process.kill()
        self.kills += 1

    def end(self) -> None:
        """Whatever is left of it."""
        for process in (self._life, self.zombie.process if self.zombie is not None else None):
            if process is not None:
                process.kill()

    def pause(self) -> None:
        self.process.pause()
        self.zombie = Zombie(self.process)
        self.kills += 1

    def stop(self) -> None:
        (self.task.place / STOP).touch()

    @property
    def errors(self) -> str:
        return (self.task.place / "errors").read_text()[-3_000:]
