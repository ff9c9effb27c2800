"""A real cluster of `penstock broker` processes without a supervisor: what dies stays dead until a test says.

    with Cluster(tmp_path, brokers=3) as cluster:
        Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.leader_of("t").kill()

Without dedicated controllers the first three brokers (or the first) are controllers too.
"""

from __future__ import annotations

import json
import shutil
import signal
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.broker import BrokerProcess
from tests.support.managed_process import penstock
from tests.support.ports import free_port
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

FIRST_CONTROLLER = 1001
RACKS = ("north", "east", "south")
"""Of the brokers 1 to 3, for tests in which racks matter."""
HTTP_SECONDS_MAX = 2.0


class NodeProcess(BrokerProcess):
    def __init__(self, folder: Path, node_id: int, roles: Iterable[str], port: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, port=port, name=f"node {node_id}")
        self.id = node_id
        self.roles = tuple(roles)
        self.file = folder / "node.toml"

    def configure(self, controllers: Iterable[NodeProcess], lines: Iterable[str] = ()) -> None:
        voters = ", ".join(f'"{each.id}@127.0.0.1:{each.port}"' for each in controllers)
        roles = ", ".join(f'"{role}"' for role in self.roles)
        settings = [
            f"id = {self.id}",
            f"roles = [{roles}]",
            f'listeners = "127.0.0.1:{self.port}"',
            f"controllers = [{voters}]",
            f'data = "{self.data}"',
            f"http_port = {self.http_port}",
            *lines,
        ]
        self.file.write_text("\n".join(settings) + "\n")

    def command(self) -> list[str]:
        return penstock("broker", "--config", str(self.file))

    def wipe(self) -> None:
        """The disk of a node that does not run is replaced by an empty one."""
        assert not self.running
        shutil.rmtree(self.data)

    def status(self) -> dict[str, Any]:
        """The cluster as this node knows it; empty if it does not answer."""
        return self._ask("/v1/cluster")

    def partition(self, topic: str, index: int = 0) -> dict[str, Any]:
        """As this node knows it; empty while it does not."""
        return partition_in(self.status(), topic, index)

    def leader_of(self, topic: str) -> int | None:
        """Who leads the topic's first partition, as this node knows it."""
        return self.partition(topic).get("leader")

    def events(self) -> list[dict[str, Any]]:
        """The cluster log as this node has it; empty if it does not answer."""
        return list(self._ask("/v1/cluster/log").get("events", []))

    def metric(self, name: str) -> int:
        """A counter or gauge without labels."""
        with urllib.request.urlopen(f"{self.http}/metrics", timeout=HTTP_SECONDS_MAX) as answer:
            lines = answer.read().decode().splitlines()
        return int(next(line.split()[1] for line in lines if line.split()[0] == name))

    def log_bytes(self, topic: str, index: int = 0) -> bytes:
        """A partition as this node has it in its files, at this moment."""
        found = b""
        for segment in sorted((self.data / f"{topic}-{index}").glob("*.log")):
            with suppress(FileNotFoundError):  # retention has taken it since
                found += segment.read_bytes()
        return found

    def _ask(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self.http + path, timeout=HTTP_SECONDS_MAX) as answer:
                return dict(json.loads(answer.read()))
        except (OSError, urllib.error.URLError, ValueError):
            return {}


class Cluster:
    def __init__(
        self,
        folder: Path,
        *,
        brokers: int,
        controllers: int = 0,
        settings: Iterable[str] = (),
        racks: Iterable[str] = (),
        balancer: str = "off",
    ) -> None:
        """`balancer`: off, as most tests say themselves who leads and where replicas lie."""
        combined = 0 if controllers else (3 if brokers >= 3 else 1)
        rack_of = dict(enumerate(racks, 1))
        self.brokers = {
            number: NodeProcess(
                folder / f"node-{number}",
                number,
                ("broker", "controller") if number <= combined else ("broker",),
                free_port(),
            )
            for number in range(1, brokers + 1)
        }
        self.controllers = {
            number: NodeProcess(folder / f"node-{number}", number, ("controller",), free_port())
            for number in range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        }
        self.nodes = {**self.controllers, **self.brokers}
        for node in self.nodes.values():
            rack = [f'rack = "{rack_of[node.id]}"'] if node.id in rack_of else []
            node.configure(self.voters, [*rack, f'balancer = "{balancer}"', *settings])

    @property
    def voters(self) -> list[NodeProcess]:
        return [node for node in self.nodes.values() if "controller" in node.roles]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.brokers.values())

    def start(self, *, timeout_s: float = 60.0) -> Cluster:
        for node in self.nodes.values():
            node.spawn()
        for node in self.nodes.values():
            node.wait_ready(timeout_s=timeout_s)
        return self

    def stop(self) -> None:
        """Brokers first, as they ask the controllers for leave."""
        for group in (self.brokers, self.controllers):
            running = [node for node in group.values() if node.running]
            for node in running:
                node.resume()
                node.signal(signal.SIGTERM)
            for node in running:
                node.wait()

    def kill_all(self) -> None:
        running = [node for node in self.nodes.values() if node.running]
        for node in running:
            node.signal(signal.SIGKILL)
        for node in running:
            node.kill()

    def status(self) -> dict[str, Any]:
        """As the first running broker that answers knows it."""
        for node in self.brokers.values():
            if node.running and (status := node.status()):
                return status
        return {}

    def events(self, after: int = -1) -> list[dict[str, Any]]:
        """The cluster log after that offset, as the first running broker that answers has it."""
        for node in self.brokers.values():
            if node.running and (events := node.events()):
                return [event for event in events if event["offset"] > after]
        return []

    def last_event(self) -> int:
        """The offset of the newest entry of the cluster log."""
        return max((event["offset"] for event in self.events()), default=-1)

    def partition(self, topic: str, index: int = 0) -> dict[str, Any]:
        """Empty while it is not known."""
        return partition_in(self.status(), topic, index)

    def leader_of(self, topic: str, index: int = 0) -> NodeProcess:
        def leader() -> NodeProcess | None:
            number = self.partition(topic, index).get("leader")
            return self.brokers[number] if number else None

        found = wait_until(leader, f"a leader of {topic}-{index}")
        assert isinstance(found, NodeProcess)
        return found

    def leader_after(self, old: NodeProcess, topic: str, *, timeout_s: float = 30.0) -> NodeProcess:
        """Who leads once `old` no longer does and all other running brokers agree."""
        others = [broker for broker in self.brokers.values() if broker is not old and broker.running]

        def agreed() -> NodeProcess | None:
            leaders = {broker.leader_of(topic) for broker in others}
            (leader,) = leaders if len(leaders) == 1 else (None,)
            return self.brokers[leader] if leader is not None and leader != old.id else None

        found = wait_until(agreed, f"another leader of {topic} than {old.id}", timeout_s=timeout_s)
        assert found is not None
        return found

    def check_replicas(self, topic: str) -> None:
        """All are back in sync and hold the same bytes."""
        self.wait_healed([topic])
        copies = {broker.log_bytes(topic) for broker in self.brokers.values()}
        assert len(copies) == 1, f"the replicas of {topic} differ: {sorted(map(len, copies))}"

    def start_again(self, *nodes: NodeProcess) -> None:
        """All of these that do not run, at once."""
        dead = [node for node in nodes if not node.running]
        for node in dead:
            node.spawn()
        for node in dead:
            node.wait_ready(timeout_s=60.0)

    def wait_healed(self, topics: Iterable[str], *, timeout_s: float = 30.0) -> None:
        """Every broker says: there is a controller, all brokers serve, the topics are in sync everywhere,
        and what it leads itself is open."""
        wanted = set(topics)
        wait_until(
            lambda: all(is_healed(node.status(), wanted, node.id) for node in self.brokers.values()),
            "all replicas in sync again",
            timeout_s=timeout_s,
        )

    def wait_in_sync(
        self, topic: str, members: Iterable[int], index: int = 0, timeout_s: float = 20.0
    ) -> None:
        wanted = set(members)
        wait_until(
            lambda: set(self.partition(topic, index).get("isr", ())) == wanted,
            f"{topic}-{index} in sync on {sorted(wanted)}",
            timeout_s=timeout_s,
        )

    def active_controller(self) -> NodeProcess:
        def active() -> NodeProcess | None:
            number = self.status().get("controller")
            node = self.nodes.get(number) if number else None
            return node if node is not None and node.running else None

        found = wait_until(active, "an active controller")
        assert isinstance(found, NodeProcess)
        return found

    def __enter__(self) -> Cluster:
        try:
            return self.start()
        except BaseException:
            self.kill_all()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for node in self.nodes.values():
                error.add_note(f"end of the output of node {node.id}:\n{node.log[-1_500:]}")
        # Clean stops have tests of their own; here they would cost each test the seconds of three goodbyes.
        self.kill_all()


def partition_in(status: dict[str, Any], topic: str, index: int) -> dict[str, Any]:
    for each in status.get("topics", []):
        if each["name"] == topic:
            return dict(each["partitions"][index])
    return {}


def is_healed(status: dict[str, Any], topics: set[str], node_id: int) -> bool:
    known = {topic["name"]: topic["partitions"] for topic in status.get("topics", [])}
    return (
        status.get("controller") is not None
        and all(broker["state"] == "running" for broker in status["brokers"])
        and topics <= known.keys()
        and all(
            partition["leader"]
            and set(partition["isr"]) == set(partition["replicas"])
            and (partition["leader"] != node_id or partition["high_watermark"] is not None)
            for topic in topics
            for partition in known[topic]
        )
    )
