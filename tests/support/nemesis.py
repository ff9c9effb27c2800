"""Faults of real nodes in random combination, all from one seed.

Every fault but the rolling restart is left behind at once, and its remedy comes due at a time of its own: so
faults meet. `heal` ends them all. The same seed gives the same choices as far as the cluster answers the
same, which real processes do not promise; `story` says what was done, and when.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.cluster import Cluster, NodeProcess

CALM_S_MAX = 2.5
"""Between two faults."""
DOWN_S_MAX = 5.0
PAUSE_S = (2.5, 6.0)
"""Past the session of 2 s."""
BURST_STOPPED_S, BURST_RUNNING_S = 0.25, 0.1
START_S_MAX = 60.0
CALM_BEFORE_WIPE_S_MAX = 15.0


class Nemesis:
    def __init__(self, cluster: Cluster, topic: str, seed: int) -> None:
        self.story: list[str] = []
        self._cluster = cluster
        self._topic = topic
        self._chance = random.Random(seed)
        self._began = time.monotonic()
        self._remedies: list[tuple[float, str, Callable[[], None]]] = []
        self._stricken: set[int] = set()
        """Dead or paused, until a remedy."""
        self._wiped_controller: tuple[int, int] | None = None
        self._faults: list[tuple[str, Callable[[], str | None]]] = [
            ("kill leader", self._kill_leader),
            ("kill follower", self._kill_follower),
            ("kill active controller", self._kill_controller),
            ("kill all", self._kill_all),
            ("pause", self._pause),
            ("pause leader", self._pause_leader),
            ("rolling restart", self._rolling_restart),
            ("wipe", self._wipe),
            ("slow follower", self._slow_follower),
        ]

    def rage(self, seconds: float) -> None:
        """Fault after fault for that long, each kind before any comes again."""
        end = time.monotonic() + seconds
        order: list[tuple[str, Callable[[], str | None]]] = []
        while time.monotonic() < end:
            if not order:
                order = self._chance.sample(self._faults, len(self._faults))
            name, strike = order.pop()
            whom = strike()
            if whom is not None:
                self._tell(f"{name}: {whom}")
            self._wait(min(end, time.monotonic() + self._chance.uniform(0.0, CALM_S_MAX)))

    def heal(self) -> None:
        """Everybody runs again."""
        for _, text, remedy in sorted(self._remedies, key=lambda each: each[0]):
            self._tell(text)
            remedy()
        self._remedies.clear()
        self._stricken.clear()
        self._tell("heal")
        self._cluster.start_again(*self._cluster.nodes.values())

    def _tell(self, text: str) -> None:
        self.story.append(f"{time.monotonic() - self._began:7.2f} {text}")

    def _wait(self, until: float) -> None:
        """Remedies that come due meanwhile are applied."""
        while (now := time.monotonic()) < until:
            due = sorted((each for each in self._remedies if each[0] <= now), key=lambda each: each[0])
            for each in due:
                self._remedies.remove(each)
                self._tell(each[1])
                each[2]()
            time.sleep(0.02)

    def _later(self, seconds: float, text: str, remedy: Callable[[], None]) -> None:
        self._remedies.append((time.monotonic() + seconds, text, remedy))

    # Whom

    def _well(self, nodes: Any) -> list[NodeProcess]:
        return [node for node in nodes if node.id not in self._stricken]

    def _status(self) -> dict[str, Any]:
        """As a node knows it that answers at once, so one that is not paused."""
        for node in self._well(self._cluster.brokers.values()):
            if status := node.status():
                return status
        return {}

    def _partition(self) -> dict[str, Any]:
        for topic in self._status().get("topics", []):
            if topic["name"] == self._topic:
                return dict(self._chance.choice(topic["partitions"]))
        return {}

    def _maybe_leader(self) -> NodeProcess | None:
        leader = self._partition().get("leader")
        return None if leader is None or leader in self._stricken else self._cluster.brokers[leader]

    def _maybe_follower(self) -> NodeProcess | None:
        partition = self._partition()
        followers = [
            self._cluster.brokers[each]
            for each in partition.get("replicas", ())
            if each != partition["leader"] and each not in self._stricken
        ]
        return self._chance.choice(followers) if followers else None

    # Faults: each returns who was struck, or None if it does not fit at the moment

    def _kill(self, *nodes: NodeProcess) -> str:
        for node in nodes:
            node.process.kill()
        for node in nodes:
            node.kill()
            self._stricken.add(node.id)
            self._later(self._chance.uniform(0.0, DOWN_S_MAX), f"start {node.id}", self._starting(node))
        return ", ".join(str(node.id) for node in nodes)

    def _starting(self, node: NodeProcess) -> Callable[[], None]:
        def start() -> None:
            if not node.running:
                node.spawn()
            self._stricken.discard(node.id)

        return start

    def _kill_leader(self) -> str | None:
        node = self._maybe_leader()
        return self._kill(node) if node else None

    def _kill_follower(self) -> str | None:
        node = self._maybe_follower()
        return self._kill(node) if node else None

    def _kill_controller(self) -> str | None:
        controller = self._status().get("controller")
        if controller is None or controller in self._stricken:
            return None
        return self._kill(self._cluster.nodes[controller])

    def _kill_all(self) -> str | None:
        # Those that are down already have their remedies.
        return self._kill(*self._well(self._cluster.nodes.values()))

    def _pause(self) -> str | None:
        well = self._well(self._cluster.nodes.values())
        return self._stop(self._chance.choice(well)) if well else None

    def _pause_leader(self) -> str | None:
        node = self._maybe_leader()
        return self._stop(node) if node else None

    def _stop(self, node: NodeProcess) -> str:
        node.pause()
        self._stricken.add(node.id)

        def resume() -> None:
            if node.running:
                node.resume()
            self._stricken.discard(node.id)

        self._later(self._chance.uniform(*PAUSE_S), f"resume {node.id}", resume)
        return str(node.id)

    def _rolling_restart(self) -> str | None:
        """Of those that are well; the others stay as they are."""
        nodes = self._well(self._cluster.nodes.values())
        self._chance.shuffle(nodes)
        for node in nodes:
            self._ready(node)
            self._tell(f"terminate {node.id}")
            node.signal(signal.SIGTERM)
            code = node.wait(timeout_s=START_S_MAX)
            assert code == 0, f"node {node.id} ended with {code}:\n{node.log[-4_000:]}"
            node.spawn()
            self._wait(time.monotonic() + self._chance.uniform(0.0, 1.0))
        return ", ".join(str(node.id) for node in nodes) or None

    def _ready(self, node: NodeProcess) -> None:
        """It serves, or will once those come back that are down: their remedies are applied meanwhile."""
        deadline = time.monotonic() + START_S_MAX
        while "ready " not in node.log:
            assert node.running, f"node {node.id} ended with {node.process.returncode}:\n{node.log[-4_000:]}"
            assert time.monotonic() < deadline, f"node {node.id} is not ready:\n{node.log[-4_000:]}"
            self._wait(time.monotonic() + 0.05)

    def _wipe(self) -> str | None:
        """Only while all others are in sync, and a controller only while all others vote: so this waits."""
        deadline = time.monotonic() + CALM_BEFORE_WIPE_S_MAX
        while self._stricken or not self._is_healed():
            if time.monotonic() > deadline:
                return None
            self._wait(time.monotonic() + 0.1)
        node = self._chance.choice(list(self._cluster.brokers.values()))
        if "controller" in node.roles:
            if not self._has_voters_again():
                return None
            self._wiped_controller = (node.id, self._cluster.last_event())
        node.kill()
        node.wipe()
        node.spawn()
        return str(node.id)

    def _is_healed(self) -> bool:
        """Every broker says so: one that has just come back may know old news alone."""
        statuses = [node.status() for node in self._cluster.brokers.values()]
        partitions = [
            partition
            for status in statuses
            for topic in status.get("topics", [])
            for partition in topic["partitions"]
        ]
        return (
            all(statuses)
            and bool(partitions)
            and all(set(each["isr"]) == set(each["replicas"]) for each in partitions)
        )

    def _has_voters_again(self) -> bool:
        """Whether a controller that was wiped has lost its seat and got it again."""
        if self._wiped_controller is None:
            return True
        node_id, offset = self._wiped_controller
        changes = [
            node_id in event["nodes"]
            for event in self._cluster.events(offset)
            if event["kind"] == "voters_changed"
        ]
        return False in changes and changes[-1]

    def _slow_follower(self) -> str | None:
        node = self._maybe_follower()
        if node is None:
            return None
        end = time.monotonic() + self._chance.uniform(1.0, 4.0)
        while time.monotonic() < end:
            node.pause()
            time.sleep(BURST_STOPPED_S)  # the fault itself
            node.resume()
            time.sleep(BURST_RUNNING_S)
        return str(node.id)
