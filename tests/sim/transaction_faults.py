"""The kinds of faults in a history of transactions, and what each does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.transaction_coordinator import TRANSACTIONS_TOPIC
from tests.sim.transaction_controller import CONTROLLER

if TYPE_CHECKING:
    from random import Random

    from penstock.types import TopicPartition
    from tests.sim.faults import Fault
    from tests.sim.transaction_clients import Application
    from tests.sim.transaction_cluster import Cluster

PROCESSES = [
    "crash",
    "crash all",
    "pause",
    "clock",
    "fence",
    "deafen",
    "move",
    "move and back",
    "move unheard",
]
NETWORK = ["cut", "slow", "slow brokers", "slow client"]
CLIENTS = ["kill client", "twin", "zombie"]
THEMES = [
    [*PROCESSES, *NETWORK, *CLIENTS],
    ["crash", "move", "move and back", "deafen", "slow brokers"],
    ["slow brokers", "slow client", "move unheard"],
    ["slow client", "slow brokers", "zombie", "twin"],
    ["pause", "deafen", "zombie", "kill client"],
]
"""Kinds that go well together, at any moment, beside those that begin with the faults and last as long."""


class TransactionFaults:
    def __init__(self, cluster: Cluster, applications: list[Application]) -> None:
        self.cluster, self.world, self.applications = cluster, cluster.world, applications

    def inject(self, fault: Fault) -> None:
        getattr(self, fault.kind.replace(" ", "_"))(fault.random)

    # From a moment on

    def loss(self, random: Random) -> None:
        self.world.faults.loss = random.choice([0.01, 0.05])

    def delay(self, random: Random) -> None:
        self.world.faults.delay_ms_max = random.choice([3, 8])

    def lateness(self, random: Random) -> None:
        self.cluster.lateness = random.choice([0.05, 0.2])

    # Brokers

    def someone(self, random: Random) -> int | None:
        """Any broker, but often one that leads what matters."""
        where = self.somewhere(random)
        leader = self.cluster.controller.partition(where).leader
        if leader in self.cluster.running and random.random() < 0.6:
            return leader
        up = sorted(self.cluster.running)
        return random.choice(up) if up else None

    def somewhere(self, random: Random) -> TopicPartition:
        """Often where a coordinator is."""
        places = self.cluster.everywhere
        if random.random() < 0.4:
            places = [where for where in places if where.topic == TRANSACTIONS_TOPIC]
        return random.choice(places)

    def crash(self, random: Random) -> None:
        broker_id = self.someone(random)
        if broker_id is not None:
            self.cluster.crash(broker_id, random)

    def crash_all(self, random: Random) -> None:
        for broker_id in sorted(self.cluster.running):
            self.cluster.crash(broker_id, random)

    def pause(self, random: Random) -> None:
        broker_id = self.someone(random)
        if broker_id is not None:
            self.cluster.pause(broker_id, random.randint(20, 400))

    def clock(self, random: Random) -> None:
        machine = self.cluster.machines[random.choice(self.cluster.broker_ids)]
        machine.clock_error_ms += random.randint(-500, 500)

    def fence(self, random: Random) -> None:
        broker_id = self.someone(random)
        if broker_id is not None:
            self.cluster.controller.fence(broker_id, "by mistake")

    def move(self, random: Random) -> None:
        self.cluster.controller.move_leader(self.somewhere(random), random.choice(self.cluster.broker_ids))

    def move_unheard(self, random: Random) -> None:
        """Who led hears of it late, and leads on for some time, for those who have not heard of it either."""
        where, controller = self.somewhere(random), self.cluster.controller
        duration_ms = random.randint(50, 400)
        for broker_id in self.cluster.broker_ids:
            if broker_id == controller.partition(where).leader or random.random() < 0.3:
                self.world.note(f"{broker_id} hears nothing of the controller for {duration_ms} ms")
                self.world.break_link(CONTROLLER, broker_id, duration_ms)
        controller.move_leader(where, random.choice(self.cluster.broker_ids))

    def move_and_back(self, random: Random) -> None:
        """So soon that what was asked before may be answered after."""
        where, controller = self.somewhere(random), self.cluster.controller
        before = controller.partition(where).leader
        controller.move_leader(where, random.choice(self.cluster.broker_ids))
        self.world.after(
            random.randint(1, 150),
            lambda: controller.move_leader(where, before) if before >= 0 else None,
        )

    # Network

    def link(self, random: Random) -> tuple[int, int]:
        first = self.someone(random) or random.choice(self.cluster.broker_ids)
        others = [each for each in (*self.cluster.broker_ids, CONTROLLER) if each != first]
        return first, random.choice(others)

    def cut(self, random: Random) -> None:
        source, target = self.link(random)
        duration_ms = random.randint(20, 400)
        self.world.note(f"cut: {source} to {target} and back, for {duration_ms} ms")
        self.world.break_link(source, target, duration_ms)
        self.world.break_link(target, source, duration_ms)

    def slow(self, random: Random) -> None:
        source, target = self.link(random)
        duration_ms = random.randint(20, 200)
        self.world.note(f"slow: {source} to {target}, for {duration_ms} ms")
        self.world.slow_down(source, target, random.choice([50, 300]), duration_ms)

    def slow_brokers(self, random: Random) -> None:
        """What one asks another comes late, and perhaps after it was asked again."""
        duration_ms = random.randint(5, 80)
        self.world.note(f"slow: the brokers, for {duration_ms} ms")
        for source in self.cluster.broker_ids:
            for target in self.cluster.broker_ids:
                if random.random() < 0.4:
                    self.world.slow_down(source, target, random.choice([50, 200]), duration_ms)

    def deafen(self, random: Random) -> None:
        """A leader hears nothing of the controller, which names another."""
        broker_id = self.someone(random)
        if broker_id is None:
            return
        duration_ms = random.randint(50, 400)
        self.world.note(f"{broker_id} hears nothing of the controller for {duration_ms} ms")
        self.world.break_link(CONTROLLER, broker_id, duration_ms)
        self.cluster.controller.fence(broker_id, "it is not heard")

    # Clients

    def application(self, random: Random) -> Application:
        return random.choice(self.applications)

    def kill_client(self, random: Random) -> None:
        self.application(random).kill()

    def twin(self, random: Random) -> None:
        self.application(random).replace(pause_ms=0)

    def slow_client(self, random: Random) -> None:
        for instance in self.application(random).living:
            duration_ms = random.randint(5, 60)
            instance.note(f"is slow for {duration_ms} ms")
            for broker_id in self.cluster.broker_ids:
                self.world.slow_down(instance.client_id, broker_id, random.choice([2, 100, 300]), duration_ms)

    def zombie(self, random: Random) -> None:
        self.application(random).replace(pause_ms=random.randint(20, 500))
