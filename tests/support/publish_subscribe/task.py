"""What a publisher or subscriber process of the publish/subscribe test is told when it starts."""

from __future__ import annotations

import faulthandler
import json
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from penstock import DisconnectedServerError, InsufficientReplicasError

if TYPE_CHECKING:
    from tests.support.publish_subscribe.journal import Journal

T = TypeVar("T")

FENCED = 3
"""The exit code of a process that was told that another one has its id now."""
STOP = "stop"
"""A file of this name tells a process to finish what it has begun, and end."""


@dataclass(frozen=True)
class Task:
    name: str
    style: str
    topics: tuple[str, ...]
    folder: str
    bootstrap: str
    life: int = 0
    seed: str = ""

    @property
    def place(self) -> Path:
        return Path(self.folder)

    @property
    def is_stopping(self) -> bool:
        return (self.place / STOP).exists()

    @property
    def chance(self) -> random.Random:
        """Another one in each life."""
        return random.Random(f"{self.seed} {self.name} {self.life}")

    def in_life(self, life: int) -> Task:
        return replace(self, life=life)

    def arguments(self) -> list[str]:
        return [json.dumps(asdict(self))]

    @classmethod
    def of_this_process(cls) -> Task:
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1)  # where it hangs is told by whoever waits for it in vain
        told = json.loads(sys.argv[1])
        return cls(**{**told, "topics": tuple(told["topics"])})


def insist(journal: Journal, action: Callable[[], T]) -> T:
    """Again whenever the cluster was away for longer than the library waits: brokers come back."""
    while True:
        try:
            return action()
        except (DisconnectedServerError, InsufficientReplicasError) as error:
            journal.append({"kind": "away", "text": f"{type(error).__name__}: {error}"})
