"""Publisher and subscriber processes on a cluster, all of which are killed at random and begin again.

    pack = Pack(tmp_path, cluster, seed)
    pack.add_subscriber("s1", "positions", topics)
    …
    pack.rage(kills)
    pack.finish()

A client is killed a random time after it has begun, or after it has done something in this life, so that
every step is hit: starting, taking over its id, subscribing, putting, keeping. Now and then one that can bear
it is paused instead and goes on when another life has taken its id: it must end by itself, fenced.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.publish_subscribe.client import Client, Zombie
from tests.support.publish_subscribe.results import finals_of
from tests.support.publish_subscribe.task import FENCED, Task
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from tests.support.supervised import SupervisedCluster

PUBLISHER = "tests.support.publish_subscribe.publisher"
SUBSCRIBER = "tests.support.publish_subscribe.subscriber"
PAUSES = 0.1
BROKER_SHARE = 0.2
PAIRS = 0.2
"""Of the kills of brokers, those that take a second one."""
WAITS = 0.95
"""How likely it is, each tenth of a second, that the next broker is spared until all serve again."""
STEP_S = 0.02
FENCED_S_MAX = 60.0
HEAL_S_MAX = 120.0


class BrokerKiller:
    def __init__(self, cluster: SupervisedCluster, chance: random.Random, kills_max: int = 0) -> None:
        self.kills = 0
        self.kills_max = kills_max
        self._cluster = cluster
        self._chance = chance
        self._due = 0.0

    @property
    def is_busy(self) -> bool:
        return self.kills < self.kills_max

    def step(self) -> list[int]:
        """The nodes that it killed, if it is time."""
        if not self.is_busy or time.monotonic() < self._due:
            return []
        serving = [(node, pid) for node, pid in self._cluster.node_pids().items() if pid is not None]
        self._due = time.monotonic() + 0.1
        if len(serving) < len(self._cluster.node_ids) and self._chance.random() < WAITS:
            return []
        count = 2 if self._chance.random() < PAIRS else 1
        killed = self._chance.sample(serving, min(count, len(serving)))
        for _, pid in killed:
            os.kill(pid, signal.SIGKILL)
        self.kills += len(killed)
        self._due = time.monotonic() + self._chance.uniform(0.5, 3.0)
        return [node for node, _ in killed]


@dataclass
class Pack:
    folder: Path
    cluster: SupervisedCluster
    seed: str
    publishers: dict[str, Client] = field(default_factory=dict)
    subscribers: dict[str, Client] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)
    fenced: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._began = time.monotonic()
        self.brokers = BrokerKiller(self.cluster, self._chance)

    @property
    def clients(self) -> list[Client]:
        return [*self.publishers.values(), *self.subscribers.values()]

    @property
    def client_kills(self) -> int:
        return sum(client.kills for client in self.clients)

    def add_publisher(self, name: str, style: str, topics: tuple[str, ...]) -> None:
        self.publishers[name] = self._start(name, style, topics, PUBLISHER)

    def add_subscriber(self, name: str, style: str, topics: tuple[str, ...]) -> None:
        self.subscribers[name] = self._start(name, style, topics, SUBSCRIBER)

    def _start(self, name: str, style: str, topics: tuple[str, ...], module: str) -> Client:
        task = Task(name, style, topics, str(self.folder / name), self.cluster.bootstrap, seed=self.seed)
        client = Client(task, module, random.Random(f"{self.seed} {name} deaths"))
        client.spawn()
        return client

    def wait_subscribed(self) -> None:
        for client in self.subscribers.values():
            self._wait(partial(_is_subscribed, client), f"{client.name} subscribes")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        def checked() -> bool:
            for client in self.clients:
                if client.exit_code not in (None, 0):
                    client.check_alive()
            return condition()

        wait_until(checked, what, timeout_s=HEAL_S_MAX)

    def tell(self, text: str) -> None:
        self.story.append(f"{time.monotonic() - self._began:.2f} s: {text}")

    # Death

    def rage(self, kills: int) -> None:
        """So many more, of which brokers have their share."""
        self.brokers.kills_max += round(kills * BROKER_SHARE)
        clients = self.client_kills + kills - round(kills * BROKER_SHARE)
        while self.brokers.is_busy or self.client_kills < clients:
            for client in self.clients:
                self._step(client, may_die=self.client_kills < clients)
            for node in self.brokers.step():
                self.tell(f"broker {node} killed")
            time.sleep(STEP_S)
        for client in self.clients:
            while client.zombie is not None:
                self._step(client, may_die=False)
                time.sleep(STEP_S)

    def _step(self, client: Client, *, may_die: bool) -> None:
        client.check_alive()
        if client.zombie is not None:
            self._lay_to_rest(client, client.zombie)
        elif may_die and client.is_due:
            if client.can_be_paused and self._chance.random() < PAUSES:
                client.pause()
                self.tell(f"{client.name} paused in life {client.lives}")
            else:
                client.kill()
                self.tell(f"{client.name} killed in life {client.lives}")
            client.spawn()

    def _lay_to_rest(self, client: Client, zombie: Zombie) -> None:
        """Once its next life has done something, which only the owner of the id can."""
        if zombie.resumed is None:
            if client.has_progress:
                zombie.process.resume()
                zombie.resumed = time.monotonic()
            return
        code = zombie.process.exit_code
        if code is None:
            assert time.monotonic() - zombie.resumed < FENCED_S_MAX, f"{client.name} was not fenced"
            return
        assert code == FENCED, f"{client.name} was paused and ended with {code}:\n{client.errors}"
        client.zombie = None
        self.fenced += 1
        self.tell(f"{client.name} life before {client.lives} was fenced")

    # The end

    def finish(self) -> None:
        """Publishers end when all are subscribed, then subscribers get what is left."""
        self.wait_subscribed()
        for client in self.publishers.values():
            client.stop()
        for client in self.publishers.values():
            self._wait(partial(_has_ended, client), f"{client.name} ends")
        finals = finals_of({name: each.journals for name, each in self.publishers.items()})
        for client in self.subscribers.values():
            if client.task.style != "copy":
                self._wait(partial(_has_got, client, finals), f"{client.name} gets all")
        for client in self.subscribers.values():
            client.stop()
        for client in self.subscribers.values():
            self._wait(partial(_has_ended, client), f"{client.name} ends")

    def end(self) -> None:
        for client in self.clients:
            client.end()


def _has_ended(client: Client) -> bool:
    return client.exit_code == 0


def _is_subscribed(client: Client) -> bool:
    client.observe()
    return client.subscribed >= set(client.task.topics)


def _has_got(client: Client, finals: Mapping[tuple[str, str], int]) -> bool:
    client.observe(first=1)
    return all(client.newest.get(flow, 0) >= last for flow, last in finals.items())
