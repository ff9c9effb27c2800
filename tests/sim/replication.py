"""A cluster of simulated brokers with real logs, and the checks that need to see all of them.

The machines outlive the processes on them: their disks keep what was synced when the power fails, all that
was written when only the process dies, and nothing when they are wiped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.storage import Flush, LogConfig
from tests.sim.broker import Broker
from tests.sim.controller import ActiveController
from tests.sim.truth import PartitionTruth
from tests.unit.storage.simulated_disk import File, SimulatedDisk

if TYPE_CHECKING:
    from random import Random

    from tests.sim.world import World


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Limits are short: much happens in a second, and often when it should not."""

    brokers: int = 3
    partitions: int = 1
    replication_factor: int = 3
    min_insync_replicas: int = 2
    log: LogConfig = field(default_factory=lambda: LogConfig(segment_bytes=1000, index_interval_bytes=150))
    session_ms: int = 120
    heartbeat_ms: int = 30
    lag_ms_max: int = 80
    fetch_wait_ms_max: int = 30
    request_ms_max: int = 60
    retry_ms: int = 10
    tick_ms: int = 20
    open_ms: tuple[int, ...] = (0, 0, 5, 40)
    goodbye_ms_max: int = 150
    restart_ms_max: int = 100
    """Until a process that ended starts again."""
    flush_ms_max: int = 5


class MachineDisk(SimulatedDisk):
    def _partly_written(self, file: File, choice: Random) -> bytes:
        """With holes, often all is written but the first pages: the damage is not at the end."""
        synced = len(file.synced)
        if self.holes and choice.random() < 0.5:
            hole = choice.randint(0, min(100, len(file.data) - synced))
            return file.synced + bytes(hole) + bytes(file.data[synced + hole :])
        return super()._partly_written(file, choice)

    def end_background(self) -> None:
        while self.delayed:
            self.run_oldest()


@dataclass
class Machine:
    broker_id: int
    disk: MachineDisk
    is_clean: bool = True
    """Whether the last process left all that it had acknowledged."""
    is_suspect: bool = False
    """Whether there may be holes in what it had not synced: it has all, and may not be able to tell."""
    high_watermarks: dict[int, int] = field(default_factory=dict)
    """As checkpointed now and then."""
    flushed: dict[int, int] = field(default_factory=dict)
    """Where the logs ended when the last process did, as far as it had acknowledged."""
    clock_error_ms: int = 0


class Cluster:
    def __init__(self, world: World, settings: Settings) -> None:
        self.world, self.settings = world, settings
        self.random = world.stream("machines")
        self.starts = 0
        self.broker_ids = range(1, settings.brokers + 1)
        self.machines = {broker_id: self.new_machine(broker_id) for broker_id in self.broker_ids}
        self.running: dict[int, Broker] = {}
        self.truths = [PartitionTruth() for _ in range(settings.partitions)]
        self.lost: set[int] = set()
        """Brokers whose data is gone, as long as the controller does not know."""
        self.crash_rate = 0.0
        """How likely a process dies in one of the next calls to its disk, at each event."""
        self.quiet_until_ms = 0
        """Clients have nothing new to write."""
        self.controller = ActiveController(self)
        self.controller.tick()

    def new_machine(self, broker_id: int) -> Machine:
        return Machine(broker_id, MachineDisk(delayed=self.random.getrandbits(32), holes=True))

    def new_stream(self, broker_id: int) -> Random:
        self.starts += 1
        return self.world.stream(f"broker {broker_id}, start {self.starts}")

    @property
    def is_quiet(self) -> bool:
        return self.world.now_ms < self.quiet_until_ms

    def send(self, source: int, target: int, event: Callable[[Broker], None]) -> None:
        def deliver() -> None:
            broker = self.running.get(target)
            if broker is not None:
                broker.receive(lambda: event(broker))

        self.world.send(source, target, deliver)

    # Faults

    def start(self, broker_id: int) -> None:
        if broker_id in self.running:
            return
        self.world.note(f"{broker_id} starts")
        broker = self.running[broker_id] = Broker(self, self.machines[broker_id])
        broker.receive(broker.begin)

    def crash(self, broker_id: int) -> None:
        """With its machine, or the process alone."""
        broker, machine = self.ended(broker_id)
        loses_power = broker.random.random() < 0.5
        if loses_power and self.settings.log.flush is Flush.OS:
            loses_power = self.may_lose(broker_id)
            machine.is_clean &= not loses_power
        elif loses_power:
            is_within_a_call = machine.disk.calls_left == 0  # else nothing is there that is not synced
            machine.disk.holes = is_within_a_call and self.may_lose(broker_id)
            machine.is_suspect |= machine.disk.holes
        self.world.note(f"{broker_id} {'loses power' if loses_power else 'dies'}")
        if loses_power:
            machine.disk.lose_power(broker.random.getrandbits(32))
        else:
            machine.disk.kill_process()

    def stopped(self, broker_id: int) -> None:
        """As it should be."""
        _, machine = self.ended(broker_id)
        self.world.note(f"{broker_id} has stopped")
        machine.disk.kill_process()

    def ended(self, broker_id: int) -> tuple[Broker, Machine]:
        broker, machine = self.running.pop(broker_id), self.machines[broker_id]
        broker.is_up = False
        machine.flushed |= {index: each.log.flushed_end_offset for index, each in broker.replicas.items()}
        delay_ms = broker.random.randint(1, self.settings.restart_ms_max)
        self.world.after(delay_ms, lambda: self.start(broker_id))
        return broker, machine

    def wipe(self, broker_id: int) -> None:
        """The disk of a broker that is down is replaced by an empty one."""
        if self.may_lose(broker_id):
            self.world.note(f"{broker_id} loses its disk")
            self.machines[broker_id] = self.new_machine(broker_id)

    def may_lose(self, broker_id: int) -> bool:
        """Whether a broker that is down may lose data: then others must have it, and be taken for the leader.

        The controller knows that the broker is gone before it loses anything. With one in-sync replica as the
        minimum, it could otherwise make a broker the only one in sync whose disk is empty.
        """
        self.controller.fence(broker_id, "its connection is refused")
        if self.lost or any(
            set(partition.isr) == {broker_id} for partition in self.controller.partitions.values()
        ):
            return False
        self.lost.add(broker_id)
        return True

    def pause(self, broker_id: int, duration_ms: int) -> None:
        broker = self.running.get(broker_id)
        if broker is not None and not broker.is_paused:
            self.world.note(f"{broker_id} is stopped for {duration_ms} ms")
            broker.is_paused = True
            self.world.after(duration_ms, broker.resume)

    def make_peace(self) -> None:
        self.crash_rate = 0.0
        for broker_id in self.broker_ids:
            machine, broker = self.machines[broker_id], self.running.get(broker_id)
            machine.clock_error_ms = 0
            machine.disk.calls_left = None
            if broker is not None:
                broker.resume()
            self.start(broker_id)

    # Checks

    def check_in_sync(self) -> None:
        """Who is in sync holds all that is committed, also while its process is down."""
        for index, partition in self.controller.partitions.items():
            truth = self.truths[index]
            for broker_id in partition.isr:
                broker = self.running.get(broker_id)
                if broker_id in self.lost:
                    continue
                if broker is not None and index in broker.replicas:
                    held = broker.replicas[index].log.flushed_end_offset
                else:
                    held = self.machines[broker_id].flushed.get(index, 0)
                assert held >= len(truth.committed), (
                    f"{broker_id} is in sync with {held} of {len(truth.committed)} committed"
                )

    def is_settled(self) -> bool:
        """Everybody is in sync with all that there is."""
        for index, partition in self.controller.partitions.items():
            end_offset = len(self.truths[index].committed)
            if set(partition.isr) != set(partition.replicas) or partition.adding or partition.removing:
                return False
            for broker_id in partition.replicas:
                broker = self.running.get(broker_id)
                replica = broker.replicas.get(index) if broker is not None else None
                if replica is None or replica.high_watermark != end_offset:
                    return False
                if replica.log.flushed_end_offset != end_offset:
                    return False
        return bool(self.controller.partitions)

    def check_all(self) -> None:
        """Everything that is committed can be read from every replica."""
        for index, partition in self.controller.partitions.items():
            truth = self.truths[index]
            for broker_id in partition.replicas:
                replica = self.running[broker_id].replicas[index]
                truth.holds(replica.who, replica.log, len(truth.committed))
