"""Brokers with one partition, a controller and a clock, driven by one-line commands; see README.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.metadata.recovery import ReplicaEnd
from penstock.replication.divergence import LogEnd
from penstock.types import ErrorCode
from tests.scripts.log import Entry, show_entries
from tests.scripts.replication.broker import Broker, Disk, Fetch
from tests.scripts.replication.controller import Controller
from tests.scripts.replication.truth import Truth
from tests.scripts.runner import Command, duration_ms

if TYPE_CHECKING:
    from penstock.metadata.image import PartitionImage
    from penstock.replication.leader import PartitionLeader, Proposal
    from penstock.replication.replica_fetch import ReplicaAnswer


class Held(NamedTuple):
    """A message on its way, and what it does when it arrives."""

    link: str
    arrive: Callable[[], None]


class World:
    def __init__(self) -> None:
        self.now_ms = 0
        self.lag_ms_max = 3000
        self.fetch_entries_max = 100
        self.controller = Controller()
        self.brokers: dict[int, Broker] = {}
        self.held: list[Held] = []
        self.truth = Truth()
        self.lines: list[str] = []
        self._ids = 0

    def run(self, text: str) -> list[str]:
        self.lines = []
        command = Command.parse(text)
        before = self._partition()
        getattr(self, command.method)(command)
        if self._partition() != before:
            self.note(self._partition())
        in_sync = (self.brokers[each] for each in self.controller.partition.isr)
        self.truth.in_sync((broker.id, broker.log) for broker in in_sync)
        printed = self.lines + [f"VIOLATION: {line}" for line in self.truth.violations]
        self.truth.violations.clear()
        return printed or ["ok"]

    def note(self, line: str) -> None:
        self.lines.append(line)

    def _partition(self) -> str:
        if not self.controller.image.topics:
            return ""
        partition = self.controller.partition
        moving = f" adding={_ids(partition.adding)}" if partition.adding else ""
        moving += f" removing={_ids(partition.removing)}" if partition.removing else ""
        return (
            f"partition: leader={partition.leader} epoch={partition.leader_epoch} isr={_ids(partition.isr)}"
            f" partition_epoch={partition.partition_epoch}{moving}"
            + (f" last_isr={_ids(partition.last_isr)}" if partition.last_isr else "")
            + (f" wiped={_ids(partition.wiped)}" if partition.wiped else "")
        )

    def _fresh(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    # Brokers

    def do_brokers(self, command: Command) -> None:
        """With a replica each, the first one leading."""
        self.lag_ms_max = duration_ms(command.options.get("lag", "3s"))
        self.controller.min_insync_replicas = int(command.options.get("min", "1"))
        spare = [int(each) for each in command.options.get("spare", "").split(",") if each]
        for broker_id in [*command.ids, *spare]:
            self._boot(broker_id, Disk(self._fresh()))
            self.controller.unfence(broker_id)
        self.controller.create(tuple(command.ids))
        self.do_learn(Command("learn", [], {}))

    def _boot(self, broker_id: int, disk: Disk, *, is_clean: bool = True) -> None:
        broker = self.brokers[broker_id] = Broker(self, broker_id, disk, self._fresh())
        broker.epoch = self.controller.register(
            broker_id, broker.incarnation, disk.storage_id, is_clean=is_clean
        )

    def do_crash(self, command: Command) -> None:
        for broker_id in command.ids:
            self.brokers[broker_id].is_up = False
            self.brokers[broker_id].log.crash()

    def do_start(self, command: Command) -> None:
        """It registers; not clean, or with another disk, if its machine has lost records or all."""
        for broker_id in command.ids:
            is_new = command.options.get("disk") == "new"
            disk = Disk(self._fresh()) if is_new else self.brokers[broker_id].disk
            disk.log.truncate(disk.log.log_end_offset - int(command.options.get("lost", "0")))
            self._boot(broker_id, disk, is_clean=command.options.get("clean") != "no")

    def do_fence(self, command: Command) -> None:
        for broker_id in command.ids:
            self.controller.fence(broker_id)

    def do_unfence(self, command: Command) -> None:
        for broker_id in command.ids:
            self.controller.unfence(broker_id)

    def do_stop(self, command: Command) -> None:
        for broker_id in command.ids:
            self.controller.stop(broker_id)

    def do_learn(self, command: Command) -> None:
        """The metadata of now reaches these brokers, or all."""
        for broker_id in command.ids or self.brokers:
            if self.brokers[broker_id].is_up:
                self.brokers[broker_id].learn(self.controller.image)

    # The topic

    def do_elect(self, command: Command) -> None:
        for error in self.controller.elect_preferred():
            self.note(error.name)

    def do_recover(self, command: Command) -> None:
        """The controller asks the live replicas what they have; `asked` if somebody consents to a loss."""
        before = self.controller.partition
        ends = {
            broker.id: ReplicaEnd(
                broker.epoch, before.leader_epoch, LogEnd(broker.log.epochs.latest, broker.log.log_end_offset)
            )
            for broker in self.brokers.values()
            if broker.is_up
        }
        if "asked" in command.words:
            for error in self.controller.elect_unclean(ends):
                self.note(error.name)
        else:
            self.controller.recover(ends)
        leader = self.controller.partition.leader
        if leader != before.leader:
            others = [broker.log for broker in self.brokers.values() if broker.is_up]
            self.note(f"lost: {show_entries(self.truth.lost(self.brokers[leader].log, others))}")

    def do_reassign(self, command: Command) -> None:
        self.controller.reassign(tuple(command.ids))

    def do_min_insync(self, command: Command) -> None:
        (self.controller.min_insync_replicas,) = command.ids
        for broker in self.brokers.values():
            broker.reconfigure(self.controller.min_insync_replicas)

    # Clients

    def do_produce(self, command: Command) -> None:
        broker_id, *values = command.words
        broker = self.brokers[int(broker_id)]
        error = broker.produce(values, wants_all=command.options.get("acks", "all") == "all")
        if error is not ErrorCode.none:
            self.note(f"  {broker_id} refuses {' '.join(values)}: {error.name}")
        elif command.options.get("flush") != "no":
            broker.flush()

    def do_flush(self, command: Command) -> None:
        for broker_id in command.ids:
            self.brokers[broker_id].flush()

    def do_read(self, command: Command) -> None:
        for broker_id in command.ids:
            broker = self.brokers[broker_id]
            entries = broker.log.read(broker.log.log_start_offset, broker.high_watermark)
            self.note(f"  {broker_id} shows {show_entries(entries)}")

    def do_latest(self, command: Command) -> None:
        """ListOffsets, as a client asks for the end."""
        for broker_id in command.ids:
            broker = self.brokers[broker_id]
            if broker.leader is None:
                self.note(f"  {broker_id} says not_leader_or_follower")
            elif not broker.leader.serves_offsets:
                self.note(f"  {broker_id} says offset_not_available")
            else:
                self.note(f"  {broker_id} says {broker.high_watermark}")

    def do_delete(self, command: Command) -> None:
        broker = self.brokers[command.ids[0]]
        broker.delete_before(min(int(command.options["before"]), broker.high_watermark))

    def do_low_watermark(self, command: Command) -> None:
        for broker_id in command.ids:
            self.note(f"  {broker_id} says {self.brokers[broker_id].low_watermark()}")

    # Replication

    def do_fetch_entries(self, command: Command) -> None:
        (self.fetch_entries_max,) = command.ids

    def do_fetch(self, command: Command) -> None:
        """One fetch and its answer, or several; with held=request or held=answer that stays on its way."""
        for broker_id in command.ids * int(command.options.get("times", "1")):
            broker = self.brokers[broker_id]
            follower = broker.follower
            assert follower is not None, f"{broker_id} follows nobody"
            fetch = Fetch(broker.member, follower, follower.next_fetch())
            self._send(command, "request", f"{broker_id}->{follower.state.leader}", self._fetch, fetch)

    def _send(
        self, command: Command, part: str, link: str, arrive: Callable[..., None], *arguments: object
    ) -> None:
        held = Held(link, lambda: arrive(command, link, *arguments))
        if command.options.get("held") == part:
            self.held.append(held)
        else:
            held.arrive()

    def _fetch(self, command: Command, link: str, fetch: Fetch) -> None:
        request, (source, leader) = fetch.request, link.split("->")
        log = f"{request.offset}@{request.last_epoch}"
        start = f" start={request.log_start_offset}" if request.log_start_offset else ""
        self.note(f"{link} Fetch epoch={request.leader_epoch} log={log}{start}")
        if not self.brokers[int(leader)].is_up:
            self.note(f"  {leader} is down")
            return
        answer, entries = self.brokers[int(leader)].serve(fetch)
        self._send(command, "answer", f"{leader}->{source}", self._fetched, fetch, answer, entries)

    def _fetched(
        self, command: Command, link: str, fetch: Fetch, answer: ReplicaAnswer, entries: list[Entry]
    ) -> None:
        self.note(f"{link} FetchResponse {_show_answer(answer, entries)}")
        broker = self.brokers[fetch.replica.broker_id]
        if broker.is_up and broker.member == fetch.replica:
            broker.answered(fetch, answer, entries)

    def do_propose(self, command: Command) -> None:
        """The leader looks whether another in-sync set is due; held as with `fetch`."""
        (broker_id,) = command.ids
        broker = self.brokers[broker_id]
        assert broker.leader is not None
        is_again = "again" in command.words
        proposal = broker.leader.propose_again() if is_again else broker.maybe_propose()
        if proposal is None:
            self.note(f"  {broker_id} proposes nothing")
        else:
            self._send(command, "request", f"{broker_id}->C", self._propose, broker, broker.leader, proposal)

    def _propose(
        self, command: Command, link: str, broker: Broker, leader: PartitionLeader, proposal: Proposal
    ) -> None:
        isr = _ids(member.broker_id for member in proposal.isr)
        epochs = f"epoch={proposal.leader_epoch} partition_epoch={proposal.partition_epoch}"
        self.note(f"{link} AlterPartition {epochs} isr={isr}")
        error, image = self.controller.alter_partition(broker.member, proposal)
        arguments = (broker, leader, proposal, error, image)
        self._send(command, "answer", f"C->{broker.id}", self._proposed, *arguments)

    def _proposed(
        self,
        command: Command,
        link: str,
        broker: Broker,
        leader: PartitionLeader,
        proposal: Proposal,
        error: ErrorCode,
        image: PartitionImage | None,
    ) -> None:
        self.note(f"{link} AlterPartitionResponse {error.name}")
        broker.decided(leader, proposal, error, image)

    def do_deliver(self, command: Command) -> None:
        """What is held, or of that the first one on this link."""
        chosen = [each for each in self.held if not command.words or each.link in command.words]
        for held in chosen[: len(command.words) or None]:
            self.held.remove(held)
            held.arrive()

    # Time

    def do_advance(self, command: Command) -> None:
        self.now_ms += duration_ms(command.words[0])

    def do_show(self, command: Command) -> None:
        self.note(self._partition())
        for broker_id in command.ids or sorted(self.brokers):
            broker = self.brokers[broker_id]
            role = "leader" if broker.leader else "follower" if broker.follower else "no role"
            role = role if broker.is_up else "down"
            self.note(f"  {broker_id} {role} high_watermark={broker.high_watermark} {broker.log}")


def _ids(broker_ids: Iterable[int]) -> str:
    return ",".join(map(str, broker_ids)) or "-"


def _show_answer(answer: ReplicaAnswer, entries: list[Entry]) -> str:
    if answer.error is not ErrorCode.none:
        return answer.error.name
    if answer.diverging is not None:
        return f"diverging={answer.diverging.end_offset}@{answer.diverging.last_epoch}"
    start = f" start={answer.log_start_offset}" if answer.log_start_offset else ""
    records = f" {show_entries(entries)}" if entries else ""
    return f"high_watermark={answer.high_watermark}{start}{records}"
