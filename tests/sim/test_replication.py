from __future__ import annotations

import os

import pytest

from penstock.storage import Flush, LogConfig
from tests.sim.clients import Consumer, Producer, Writer
from tests.sim.controller import CONTROLLER
from tests.sim.replication import Cluster, Settings
from tests.sim.world import Faults, World

FAULTS = [
    "crash", "crash all", "wipe", "cut", "cut one way", "slow", "heal", "pause", "clock", "fence", "move",
    "delete",
]  # fmt: skip
SEEDS = int(os.environ.get("PENSTOCK_SIM_SEEDS", "500"))
FIRST_SEED = int(os.environ.get("PENSTOCK_SIM_FIRST_SEED", "1"))
FAULTS_MS = 1500
PEACE_MS = 3000
TRACE_LINES = 60


class Simulation:
    """Some time of faults, then as much of peace as it takes until all is well."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.random = self.world.random
        self.cluster = Cluster(self.world, self.settings())
        self.producers: list[Producer] = []
        self.writer: Writer | None = None
        # Each history has a few kinds of faults: with all of them at once, one hides what another would show.
        self.faults = self.random.sample(FAULTS, self.random.randint(2, 6))
        self.fault_pause_ms_max = self.random.choice([40, 100, 200])

    def settings(self) -> Settings:
        random = self.random
        replication_factor = random.choice([1, 2, 3, 3, 3, 3])
        flush = random.choice([Flush.COMMIT, Flush.COMMIT, Flush.COMMIT, Flush.OS])
        return Settings(
            brokers=max(replication_factor, random.choice([3, 3, 4])),
            partitions=random.choice([1, 1, 2]),
            replication_factor=replication_factor,
            min_insync_replicas=random.randint(1, replication_factor),
            log=LogConfig(segment_bytes=random.choice([600, 5000]), index_interval_bytes=150, flush=flush),
            flush_ms_max=random.choice([0, 5, 30]),
        )

    def run(self) -> Cluster:
        world, cluster, random = self.world, self.cluster, self.random
        for broker_id in cluster.broker_ids:
            world.after(random.randint(0, 50), lambda broker_id=broker_id: cluster.start(broker_id))
        for client_id in range(random.randint(1, 3)):
            index = random.randrange(cluster.settings.partitions)
            producer = Producer(cluster, client_id + 1, index, random.choice([1, 2, 5]))
            self.producers.append(producer)
            world.after(random.randint(0, 200), producer.send)
            world.after(random.randint(0, 200), Consumer(cluster, client_id + 11, index).poll)
        if random.random() < 0.5:
            self.writer = Writer(cluster, 21, 0, random.choice([10, 40]))
            world.after(random.randint(0, 200), self.writer.send)
        world.run(200)
        world.faults = Faults(
            random.choice([0, 0, 0.02, 0.1]),
            random.choice([0, 0.1]),
            random.choice([2, 10, 40]),
            random.choice([0, 0.02, 0.1]),
        )
        cluster.crash_rate = random.choice([0.0, 0.0, 0.003])
        world.after(random.randint(0, 300), self.fault)
        world.run(FAULTS_MS)
        self.make_peace()
        deadline_ms = world.now_ms + PEACE_MS
        while not self.is_well():
            assert world.now_ms < deadline_ms, "no progress after the faults"
            world.run(world.now_ms + 100)
        cluster.check_all()
        return cluster

    def fault(self) -> None:
        if self.world.now_ms > FAULTS_MS:
            return
        self.world.after(self.random.randint(1, self.fault_pause_ms_max), self.fault)
        cluster, random = self.cluster, self.random
        up = sorted(cluster.running)
        kind = random.choice(self.faults)
        if kind == "crash" and up:
            self.crash(random.choice(up))
        elif kind == "crash all":
            for broker_id in up:
                self.crash(broker_id)
        elif kind == "wipe" and up:
            broker_id = random.choice(up)
            cluster.crash(broker_id)
            cluster.wipe(broker_id)
        elif kind.startswith("cut"):
            self.cut(both_ways=kind == "cut")
        elif kind == "slow":
            self.slow_down()
        elif kind == "delete":
            self.delete_records()
        elif kind == "fence":
            cluster.controller.fence(random.choice(cluster.broker_ids), "by mistake")
        elif kind == "move" and cluster.controller.partitions:
            cluster.controller.move_leader(random.randrange(cluster.settings.partitions))
        elif kind == "heal":
            self.world.note("heal")
            self.world.heal()
        elif kind == "pause" and up:
            self.pause(random.choice(up))
        elif kind == "clock":
            broker_id = random.choice(cluster.broker_ids)
            cluster.machines[broker_id].clock_error_ms += random.randint(-500, 500)
        for broker_id in cluster.broker_ids:
            if random.random() < 0.5:
                cluster.start(broker_id)

    def crash(self, broker_id: int) -> None:
        self.cluster.crash(broker_id)
        if self.random.random() < 0.5:  # a connection that is refused tells the controller at once
            self.cluster.controller.fence(broker_id, "its connection is refused")

    def cut(self, *, both_ways: bool) -> None:
        source, target = self.random.sample([*self.cluster.broker_ids, CONTROLLER], 2)
        self.world.note(f"cut: {source} to {target}{' and back' if both_ways else ''}")
        self.world.break_link(source, target)
        if both_ways:
            self.world.break_link(target, source)

    def slow_down(self) -> None:
        source, target = self.random.sample([*self.cluster.broker_ids, CONTROLLER], 2)
        self.world.note(f"slow: {source} to {target}")
        self.world.slow_down(source, target, self.random.choice([100, 500]))

    def pause(self, broker_id: int) -> None:
        broker = self.cluster.running[broker_id]
        if not broker.is_paused:
            self.world.note(f"{broker_id} is stopped for a while")
            broker.is_paused = True
            self.world.after(self.random.randint(20, 400), lambda: self.resume(broker_id))

    def resume(self, broker_id: int) -> None:
        broker = self.cluster.running.get(broker_id)
        if broker is not None and broker.is_paused:
            self.world.note(f"{broker_id} goes on")
            broker.resume()

    def delete_records(self) -> None:
        for broker in list(self.cluster.running.values()):
            for replica in broker.replicas.values():
                broker.receive(replica.delete_records)

    def make_peace(self) -> None:
        self.world.note("peace")
        self.world.heal()
        self.world.faults = Faults()
        self.cluster.crash_rate = 0.0
        for broker_id in self.cluster.broker_ids:
            self.cluster.machines[broker_id].clock_error_ms = 0
            self.cluster.machines[broker_id].disk.calls_left = None
            self.resume(broker_id)
            self.cluster.start(broker_id)
        for producer in self.producers:
            producer.is_writing = False
        if self.writer is not None:
            self.writer.is_writing = False

    def is_well(self) -> bool:
        return not any(producer.pending for producer in self.producers) and self.cluster.is_settled()


def simulate(seed: int) -> Cluster:
    return Simulation(seed).run()


def check(seed: int) -> None:
    simulation = Simulation(seed)
    try:
        simulation.run()
    except Exception as error:  # whatever it is, the seed and the history belong to it
        trace = "\n".join(simulation.world.trace[-TRACE_LINES:])
        command = f"PENSTOCK_SIM_FIRST_SEED={seed} PENSTOCK_SIM_SEEDS=1 pytest tests/sim/test_replication.py"
        pytest.fail(f"{trace}\nseed {seed}: {error!r}\nagain: {command}", pytrace=True)


def test_nothing_is_lost_whatever_happens() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        check(seed)
