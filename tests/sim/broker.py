"""A broker process of the simulated cluster: the cores and the real storage, driven by events.

It may die within any call to its disk, stop for a while and go on with what came meanwhile, and its clock may
jump. Everything that it knows it learned from a message or has on its disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.brokers import Registration
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
from penstock.storage import DamagedEndError, FileStorage
from penstock.types import ErrorCode
from tests.sim.controller import CONTROLLER, TOPIC, TOPIC_ID
from tests.sim.replica import Replica
from tests.unit.storage.simulated_disk import PowerFailure

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage, PartitionImage
    from penstock.replication.leader import Member
    from penstock.storage import PartitionLog
    from tests.sim.replication import Cluster, Machine
    from tests.sim.truth import Message

Produced = Callable[[ErrorCode, int], None]
Fetched = Callable[[ReplicaAnswer, bytes], None]


class Broker:
    def __init__(self, cluster: Cluster, machine: Machine) -> None:
        self.cluster, self.machine, self.world = cluster, machine, cluster.world
        self.settings = cluster.settings
        self.broker_id = machine.broker_id
        self.random = cluster.new_stream(self.broker_id)
        self.incarnation = UUID(int=self.random.getrandbits(128))
        self.broker_epoch = -1
        self.image: MetadataImage | None = None
        self.offset = 0
        self.minimum = cluster.settings.min_insync_replicas
        self.replicas: dict[int, Replica] = {}
        self.opening: set[int] = set()
        self.leaving: dict[int, Replica] = {}
        """Which go to other brokers, as soon as nothing of them is on its way to the disk."""
        self.is_ready = False
        self.is_beating = False
        self.wants_to_stop = False
        self.is_closing = False
        self.is_up = True
        self.is_paused = False
        self._backlog: list[Callable[[], None]] = []
        self.storage = FileStorage.open("/data", self.broker_id, disk=machine.disk)

    @property
    def now_ms(self) -> int:
        return self.world.now_ms + self.machine.clock_error_ms

    def begin(self) -> None:
        self.register()
        self.tick()

    # Events

    def receive(self, event: Callable[[], None]) -> None:
        if not self.is_up:
            return
        if self.is_paused:
            self._backlog.append(event)
            return
        disk = self.machine.disk
        if self.random.random() < self.cluster.crash_rate and disk.calls_left is None:
            disk.calls_left = self.random.randint(0, 8)
        try:
            event()
        except PowerFailure:
            self.cluster.crash(self.broker_id)

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        self.world.after(delay_ms, lambda: self.receive(event))

    def resume(self) -> None:
        """Other threads and sockets were ready meanwhile, and nobody knows in which order they go on."""
        if not self.is_up or not self.is_paused:
            return
        self.world.note(f"{self.broker_id} goes on")
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        self.random.shuffle(backlog)
        for event in backlog:
            self.receive(event)

    # Cluster

    def register(self) -> None:
        if self.broker_epoch >= 0:
            return
        registration = Registration(
            self.broker_id,
            self.incarnation,
            self.storage.storage_id,
            "host",
            9092,
            is_clean=self.machine.is_clean,
        )

        def deliver() -> None:
            if self.is_up:  # its connection ends with the process
                broker_epoch = self.cluster.controller.register(registration)
                self.reply(CONTROLLER, lambda: self.registered(registration, broker_epoch))

        self.world.send(self.broker_id, CONTROLLER, deliver)
        self.after(self.settings.request_ms_max, self.register)

    def registered(self, registration: Registration, broker_epoch: int) -> None:
        if self.broker_epoch < 0 and registration.incarnation == self.incarnation:
            self.broker_epoch = broker_epoch
            self.machine.is_clean = True  # not before: the controller must hear of it, by whichever process
            self.maybe_ready()
            if not self.is_beating:
                self.is_beating = True
                self.heartbeat()

    def heartbeat(self) -> None:
        self.after(self.settings.heartbeat_ms, self.heartbeat)
        broker_epoch, wants_to_stop = self.broker_epoch, self.wants_to_stop
        offset = self.offset if self.is_ready else -1
        for index, replica in self.replicas.items():
            self.machine.high_watermarks[index] = replica.high_watermark

        def deliver() -> None:
            may_stop = self.cluster.controller.heartbeat(
                self.broker_id, broker_epoch, offset, wants_to_stop=wants_to_stop
            )
            if may_stop:
                self.reply(CONTROLLER, self.close)

        self.world.send(self.broker_id, CONTROLLER, deliver)

    def metadata(self, image: MetadataImage, offset: int, minimum: int) -> None:
        """What concerns an earlier process with this id is not told to the replicas."""
        me = image.brokers.get(self.broker_id)
        if offset <= self.offset or me is None or me.incarnation != self.incarnation or self.is_closing:
            return
        self.image, self.offset, self.minimum = image, offset, minimum
        for replica in self.replicas.values():
            replica.reconfigure(minimum)
        self.assign()
        self.maybe_ready()

    def maybe_ready(self) -> None:
        """All logs are open that the metadata names at the start, so nothing is found damaged any more."""
        if self.image is not None and self.broker_epoch >= 0 and not self.opening:
            self.is_ready, self.machine.is_suspect = True, False
            self.cluster.lost.discard(self.broker_id)

    def assign(self) -> None:
        """Open, tell and give up replicas as the metadata says."""
        topic = self.image.topics.get(TOPIC) if self.image is not None else None
        for index, partition in topic.partitions.items() if topic is not None else ():
            if self.broker_id not in partition.replicas:
                self.give_up(index)
            elif index in self.replicas:
                self.replicas[index].apply(partition)
            elif index not in self.leaving and index not in self.opening:
                self.opening.add(index)
                self.after(self.random.choice(self.settings.open_ms), lambda index=index: self.open(index))

    def open(self, index: int) -> None:
        self.opening.discard(index)
        if self.image is None or self.is_closing:
            return
        partition = self.image.topics[TOPIC].partitions[index]
        if self.broker_id in partition.replicas:
            log = self.maybe_open_log(index, partition)
            if log is None:
                return
            self.replicas[index] = Replica(self, index, log, self.machine.high_watermarks.get(index, 0))
            self.replicas[index].apply(partition)
        self.maybe_ready()

    def maybe_open_log(self, index: int, partition: PartitionImage) -> PartitionLog | None:
        """A damaged end is cut once nobody counts on it, for which the broker says that it lost something."""
        name, config = f"{TOPIC}-{index}", self.settings.log
        try:
            return self.storage.open_log(name, TOPIC_ID, config, self.now_ms)
        except DamagedEndError:
            if self.broker_id not in partition.isr:
                config = replace(config, cuts_damaged_end=True)
                return self.storage.open_log(name, TOPIC_ID, config, self.now_ms)
            assert len(partition.isr) > 1, "nobody else has it"
        self.world.note(f"{self.broker_id} finds {name} damaged")
        self.incarnation = UUID(int=self.random.getrandbits(128))
        self.image, self.broker_epoch, self.is_ready, self.machine.is_clean = None, -1, False, False
        self.register()
        return None

    def give_up(self, index: int) -> None:
        replica = self.replicas.pop(index, None)
        if replica is not None:
            self.machine.flushed[index] = self.machine.high_watermarks[index] = 0
            self.leaving[index] = replica
            replica.close(lambda: self.delete(index))

    def delete(self, index: int) -> None:
        self.world.note(f"{self.leaving.pop(index).who} is deleted")
        self.storage.delete_log(f"{TOPIC}-{index}")
        if self.is_closing:
            self.maybe_end()
        else:
            self.assign()  # it may have come back meanwhile

    def stop(self) -> None:
        """With the controller's consent, or without it when that does not come."""
        self.world.note(f"{self.broker_id} wants to stop")
        self.wants_to_stop = True
        self.after(self.settings.goodbye_ms_max, self.close)

    def close(self) -> None:
        if self.is_closing:
            return
        self.is_closing = True
        for replica in self.replicas.values():
            replica.close(self.maybe_end)
        self.maybe_end()

    def maybe_end(self) -> None:
        replicas = self.replicas.values()
        if self.is_up and not self.leaving and all(each.is_closed and not each.is_busy for each in replicas):
            self.storage.close()
            self.cluster.stopped(self.broker_id)

    def tick(self) -> None:
        self.after(self.settings.tick_ms, self.tick)
        for replica in self.replicas.values():
            replica.tick()

    @property
    def live(self) -> list[int]:
        return [broker.id for broker in self.image.live_brokers()] if self.image is not None else []

    def broker_epoch_of(self, broker_id: int) -> int | None:
        broker = self.image.brokers.get(broker_id) if self.image is not None else None
        return broker.epoch if broker is not None and broker.electable else None

    # Requests

    def fetch(self, index: int, replica: Member, fetch: ReplicaFetch, reply: Fetched) -> None:
        found = self.replicas.get(index)
        if found is None:
            reply(ReplicaAnswer(ErrorCode.not_leader_or_follower), b"")
        else:
            found.serve_fetch(replica, fetch, reply)

    def produce(self, index: int, messages: list[Message], batch: bytes, reply: Produced | None) -> None:
        """Without `reply` as with acks=1, else with acks=all."""
        found = self.replicas.get(index)
        if found is not None and reply is None:
            found.append(batch)
        elif found is not None and reply is not None:
            found.produce(messages, batch, reply)
        elif reply is not None:
            reply(ErrorCode.not_leader_or_follower, -1)

    def reply(self, source: int, event: Callable[[], None]) -> None:
        """To this process, from another node, on a connection that ends with either of them."""
        self.world.send(source, self.broker_id, lambda: self.receive(event))
