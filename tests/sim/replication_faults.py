"""The kinds of faults of the simulated cluster, and what each does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.controller import CONTROLLER

if TYPE_CHECKING:
    from random import Random

    from tests.sim.clients import Writer
    from tests.sim.faults import Fault
    from tests.sim.replication import Cluster

KINDS = [
    "crash", "crash all", "wipe", "stop", "pause", "clock", "fence",
    "cut", "cut one way", "slow",
    "move", "move and back", "elect preferred", "reassign", "remove and return", "minimum",
    "delete", "retention",
]  # fmt: skip
"""At any moment, beside those that begin with the faults and last as long."""


class ReplicationFaults:
    def __init__(self, cluster: Cluster, writer: Writer) -> None:
        self.cluster, self.world, self.writer = cluster, cluster.world, writer

    def inject(self, fault: Fault) -> None:
        getattr(self, fault.kind.replace(" ", "_"))(fault.random)

    # From a moment on

    def writes_that_may_be_lost(self, random: Random) -> None:
        self.writer.send()

    def loss(self, random: Random) -> None:
        self.world.faults.loss = random.choice([0.02, 0.1])

    def duplication(self, random: Random) -> None:
        self.world.faults.duplication = 0.1

    def delay(self, random: Random) -> None:
        self.world.faults.delay_ms_max = random.choice([10, 40])

    def stragglers(self, random: Random) -> None:
        self.world.faults.straggling = random.choice([0.02, 0.1])

    def crashes_within_calls_to_the_disk(self, random: Random) -> None:
        self.cluster.crash_rate = random.choice([0.003, 0.01])

    # Processes and machines

    def someone(self, random: Random) -> int | None:
        up = sorted(self.cluster.running)
        return random.choice(up) if up else None

    def crash(self, random: Random) -> None:
        broker_id = self.someone(random)
        if broker_id is not None:
            self.kill(broker_id, random)

    def crash_all(self, random: Random) -> None:
        for broker_id in sorted(self.cluster.running):
            self.kill(broker_id, random)

    def kill(self, broker_id: int, random: Random) -> None:
        self.cluster.crash(broker_id)
        if random.random() < 0.5:  # a connection that is refused tells the controller at once
            self.cluster.controller.fence(broker_id, "its connection is refused")

    def wipe(self, random: Random) -> None:
        broker_id = self.someone(random)
        if broker_id is not None:
            self.cluster.crash(broker_id)
            self.cluster.wipe(broker_id)

    def stop(self, random: Random) -> None:
        broker_id = self.someone(random)
        if broker_id is not None:
            broker = self.cluster.running[broker_id]
            broker.receive(broker.stop)

    def pause(self, random: Random) -> None:
        broker_id = self.someone(random)
        if broker_id is not None:
            self.cluster.pause(broker_id, random.randint(20, 400))

    def clock(self, random: Random) -> None:
        self.cluster.machines[random.choice(self.cluster.broker_ids)].clock_error_ms += random.randint(
            -500, 500
        )

    def fence(self, random: Random) -> None:
        self.cluster.controller.fence(random.choice(self.cluster.broker_ids), "by mistake")

    # Network

    def link(self, random: Random) -> tuple[int, int]:
        """Between any two nodes, but often one where it matters: of a leader, to or from the controller."""
        leaders = [each.leader for each in self.cluster.controller.partitions.values() if each.leader >= 0]
        ends = [*self.cluster.broker_ids, CONTROLLER]
        if leaders and random.random() < 0.5:
            ends = [random.choice(leaders), CONTROLLER]
        source, target = random.sample(ends, 2)
        return source, target

    def cut(self, random: Random) -> None:
        source, target = self.link(random)
        duration_ms = random.randint(20, 500)
        self.world.note(f"cut: {source} to {target} and back, for {duration_ms} ms")
        self.world.break_link(source, target, duration_ms)
        self.world.break_link(target, source, duration_ms)

    def cut_one_way(self, random: Random) -> None:
        source, target = self.link(random)
        duration_ms = random.randint(20, 500)
        self.world.note(f"cut: {source} to {target}, for {duration_ms} ms")
        self.world.break_link(source, target, duration_ms)

    def slow(self, random: Random) -> None:
        source, target = self.link(random)
        duration_ms = random.randint(20, 500)
        self.world.note(f"slow: {source} to {target}, for {duration_ms} ms")
        self.world.slow_down(source, target, random.choice([100, 500]), duration_ms)

    # What an operator asks for

    def index(self, random: Random) -> int | None:
        """Of a partition, if the topic is there."""
        indexes = sorted(self.cluster.controller.partitions)
        return random.choice(indexes) if indexes else None

    def move(self, random: Random) -> None:
        index = self.index(random)
        if index is not None:
            self.cluster.controller.move_leader(index, random.choice(self.cluster.broker_ids))

    def move_and_back(self, random: Random) -> None:
        """The leader hears of it late, perhaps only when it leads again: others know two epochs more."""
        index, controller = self.index(random), self.cluster.controller
        if index is None:
            return
        leader = controller.partitions[index].leader
        others = [each for each in controller.partitions[index].isr if each != leader]
        if leader < 0 or not others:
            return
        duration_ms = random.randint(30, 100)
        if random.random() < 0.3:
            self.cluster.pause(leader, duration_ms + random.randint(0, 20))
        else:
            self.world.break_link(CONTROLLER, leader, duration_ms + random.randint(5, 60))
        controller.move_leader(index, random.choice(others))
        self.world.after(duration_ms, lambda: controller.move_leader(index, leader))

    def elect_preferred(self, random: Random) -> None:
        self.cluster.controller.elect_preferred_leaders()

    def reassign(self, random: Random) -> None:
        """To other brokers, perhaps more or fewer; perhaps back before that is done, or soon after."""
        index, controller = self.index(random), self.cluster.controller
        if index is None:
            return
        before = controller.partitions[index].target
        count = random.randint(controller.minimum, len(self.cluster.broker_ids))
        controller.reassign(index, tuple(random.sample(self.cluster.broker_ids, count)))
        back = random.choice([None, before])
        if random.random() < 0.7:
            self.world.after(random.randint(5, 150), lambda: self.reassign_back(index, back))

    def remove_and_return(self, random: Random) -> None:
        """One replica goes and comes back, so soon that the leader may take it for the one that it was.

        Nothing is written meanwhile, or it would have to catch up.
        """
        self.cluster.quiet_until_ms = self.world.now_ms + 100
        self.world.after(30, lambda: self.remove_and_return_now(random))

    def remove_and_return_now(self, random: Random) -> None:
        index, controller = self.index(random), self.cluster.controller
        if index is None:
            return
        partition = controller.partitions[index]
        others = [each for each in partition.target if each != partition.leader]
        if others and len(partition.target) > controller.minimum:
            gone = random.choice(others)
            controller.reassign(index, tuple(each for each in partition.target if each != gone))
            delay_ms = random.randint(5, 40)
            self.world.after(delay_ms, lambda: self.reassign_back(index, partition.target))

    def reassign_back(self, index: int, target: tuple[int, ...] | None) -> None:
        if target is None or len(target) >= self.cluster.controller.minimum:
            self.cluster.controller.reassign(index, target)

    def minimum(self, random: Random) -> None:
        """Of in-sync replicas, as many as every partition has or will have."""
        controller = self.cluster.controller
        partitions = controller.partitions.values()
        if partitions:
            most = min(min(len(each.original), len(each.target)) for each in partitions)
            controller.set_minimum(random.randint(1, most))

    def delete(self, random: Random) -> None:
        for broker in list(self.cluster.running.values()):
            for replica in broker.replicas.values():
                broker.receive(lambda replica=replica: replica.delete_records(random))

    def retention(self, random: Random) -> None:
        broker_id = self.someone(random)
        if broker_id is not None:
            broker = self.cluster.running[broker_id]
            for replica in list(broker.replicas.values()):
                broker.receive(replica.apply_retention)
