"""The publish/subscribe commands as a program in a shell uses them, each killed at random.

Whoever puts repeats the command with the same `--seq` until it is told that the message is stored. Whoever
gets keeps what was printed, and leaves out what it has: offsets of a topic only grow, so a message at or
below the last offset that it has is one whose command was killed between printing and writing the position.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.commands import environment
from tests.support.publish_subscribe.checker import Got, MessageId, Place, Promise, Reader, Sent, Subscribing

if TYPE_CHECKING:
    from tests.support.supervised import SupervisedCluster

SPARED = 0.4
"""Of the commands, those that nobody kills."""
WAIT_S = 2


class Commands(threading.Thread):
    """One command after the other, until told to stop."""

    def __init__(self, name: str, folder: Path, cluster: SupervisedCluster, seed: str) -> None:
        super().__init__(name=name)
        self.kills = 0
        self.failures: list[str] = []
        """Of commands that gave up by themselves while brokers were away."""
        self.error: BaseException | None = None
        self.is_sparing = threading.Event()
        self.stopping = threading.Event()
        self._cluster = cluster
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        self._chance = random.Random(f"{seed} {name}")
        self._usual_s = 1.0

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.step()
        except BaseException as error:
            self.error = error

    @abstractmethod
    def step(self) -> None: ...

    def penstock(self, *arguments: str) -> tuple[int | None, str]:
        """The exit code, none if it was killed, and the whole lines that it printed until then."""
        is_spared = self.is_sparing.is_set() or self._chance.random() < SPARED
        limit_s = None if is_spared else self._chance.uniform(0.3, 1.1) * self._usual_s
        began = time.monotonic()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            command = [sys.executable, "-m", "penstock", *arguments]
            with subprocess.Popen(command, stdout=out, stderr=err, env=environment(self._cluster)) as process:
                try:
                    code: int | None = process.wait(limit_s)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = None
        if code is None:
            self.kills += 1
        elif code == 0:
            self._usual_s = 0.7 * self._usual_s + 0.3 * min(time.monotonic() - began, 5.0)
        else:
            self.failures.append(self._err.read_text())
            assert code == 1, f"exit code {code}: {self.failures[-1]}"
            assert "Traceback" not in self.failures[-1], self.failures[-1]
        text = self._out.read_text()
        return code, text[: text.rfind("\n") + 1]


class PutCommands(Commands):
    def __init__(self, name: str, topic: str, folder: Path, cluster: SupervisedCluster, seed: str) -> None:
        super().__init__(name, folder, cluster, seed)
        self.sent: list[Sent] = []
        self.last = 0
        self._topic = topic

    def step(self) -> None:
        message = MessageId(self.name, self._topic, self.last + 1)
        began = time.monotonic()
        self.sent.append(Sent(message, began))
        code: int | None = None
        while code != 0:
            code, text = self.penstock(
                "put", self._topic, message.value, "--id", self.name, "--seq", str(message.seq)
            )
        seq, offset = map(int, text.split())
        assert seq == message.seq
        place = Place(self._topic, 0, offset) if offset >= 0 else None
        self.sent.append(Sent(message, began, time.monotonic(), place))
        self.last = seq


class GetCommands(Commands):
    def __init__(self, name: str, topic: str, folder: Path, cluster: SupervisedCluster, seed: str) -> None:
        super().__init__(name, folder, cluster, seed)
        self.got: list[Got] = []
        self.repeated = 0
        self._topic = topic
        self._subscribed: Subscribing | None = None

    def subscribe(self) -> None:
        began = time.monotonic()
        while self.penstock("sub", self._topic, "--id", self.name)[0] != 0:
            pass
        self._subscribed = Subscribing(began, time.monotonic())

    def step(self) -> None:
        count = str(self._chance.randint(1, 4))
        _, text = self.penstock("get", "--id", self.name, "-n", count, "--wait", str(WAIT_S), "--json")
        for line in text.splitlines():
            told = json.loads(line)
            if self.got and told["offset"] <= self.got[-1].place.offset:
                self.repeated += 1
                continue
            place = Place(told["topic"], 0, told["offset"])
            self.got.append(Got(place, MessageId.of(told["value"])))

    @property
    def reader(self) -> Reader:
        assert self._subscribed is not None
        return Reader(self.name, Promise.EXACTLY_ONCE, {self._topic: self._subscribed}, [self.got])
