"""A broker process of the simulated cluster: the cores and the real storage, driven by events.

It may die within any call to its disk, stop for a while and go on with what came meanwhile, and its clock may
jump. Everything that it knows it learned from a message or has on its disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.brokers import Registration
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
from penstock.storage import FileStorage
from penstock.types import ErrorCode
from tests.sim.controller import CONTROLLER, TOPIC, TOPIC_ID
from tests.sim.replica import Replica
from tests.unit.storage.simulated_disk import PowerFailure

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.replication.leader import Member
    from tests.sim.replication import Cluster, Machine
    from tests.sim.truth import Message

Produced = Callable[[ErrorCode, int], None]
Fetched = Callable[[ReplicaAnswer, bytes], None]


class Broker:
    def __init__(self, cluster: Cluster, machine: Machine) -> None:
        self.cluster, self.machine, self.world = cluster, machine, cluster.world
        self.settings = cluster.settings
        self.broker_id = machine.broker_id
        self.incarnation = UUID(int=self.world.random.getrandbits(128))
        self.broker_epoch = -1
        self.image: MetadataImage | None = None
        self.offset = 0
        self.replicas: dict[int, Replica] = {}
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
        if disk.calls_left is None and self.world.random.random() < self.cluster.crash_rate:
            disk.calls_left = self.world.random.randint(0, 8)
        try:
            event()
        except PowerFailure:
            self.cluster.crash(self.broker_id)

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        self.world.after(delay_ms, lambda: self.receive(event))

    def resume(self) -> None:
        """Other threads and sockets were ready meanwhile, and nobody knows in which order they go on."""
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        self.world.random.shuffle(backlog)
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
                self.reply(CONTROLLER, lambda: self.registered(broker_epoch))

        self.world.send(self.broker_id, CONTROLLER, deliver)
        self.after(self.settings.request_ms_max, self.register)

    def registered(self, broker_epoch: int) -> None:
        if self.broker_epoch < 0:
            self.broker_epoch = broker_epoch
            self.machine.is_clean = True  # not before: the controller must hear of it, by whichever process
            self.heartbeat()

    def heartbeat(self) -> None:
        self.after(self.settings.heartbeat_ms, self.heartbeat)
        broker_epoch, offset = self.broker_epoch, self.offset
        for index, replica in self.replicas.items():
            self.machine.high_watermarks[index] = replica.high_watermark
        self.world.send(
            self.broker_id,
            CONTROLLER,
            lambda: self.cluster.controller.heartbeat(self.broker_id, broker_epoch, offset),
        )

    def metadata(self, image: MetadataImage, offset: int) -> None:
        """What concerns an earlier process with this id is not told to the replicas."""
        me = image.brokers.get(self.broker_id)
        if offset <= self.offset or me is None or me.incarnation != self.incarnation:
            return
        self.image, self.offset = image, offset
        topic = image.topics.get(TOPIC)
        for index, partition in topic.partitions.items() if topic is not None else ():
            if self.broker_id in partition.replicas:
                if index not in self.replicas:
                    self.replicas[index] = self.open(index)
                self.replicas[index].apply(partition)

    def open(self, index: int) -> Replica:
        log = self.storage.open_log(f"{TOPIC}-{index}", TOPIC_ID, self.settings.log, self.now_ms)
        return Replica(self, index, log, self.machine.high_watermarks.get(index, 0))

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
