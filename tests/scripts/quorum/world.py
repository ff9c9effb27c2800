"""Nodes of the quorum, a clock and a network, driven by one-line commands; see README.md for the commands."""

from __future__ import annotations

from uuid import UUID

from penstock.quorum.limits import OBSERVER_PATIENCE, QuorumLimits
from penstock.quorum.messages import FetchRequest, FetchResponse, VoteRequest, VoteResponse
from penstock.quorum.voters import VoterSet
from tests.scripts.quorum.node import Disk, Envelope, Node
from tests.scripts.quorum.show import show
from tests.scripts.quorum.truth import Truth
from tests.scripts.runner import Command, duration_ms

DELIVERIES_MAX = 500
"""Of one command: a script that needs more has nodes that do not come to rest."""
JITTER_STEP_MS = 200
ANSWERS = (VoteResponse, FetchResponse)
FETCHES = (FetchRequest, FetchResponse)


class World:
    def __init__(self) -> None:
        self.now_ms = 0
        self.limits = QuorumLimits()
        self.configured = VoterSet.of_ids([])
        self.nodes: dict[int, Node] = {}
        self.jitter_ms: dict[int, int] = {}
        self.in_flight: list[Envelope] = []
        self.cuts: set[tuple[int, int]] = set()
        self.truth = Truth()
        self.disks_made = 0
        self.fetch_entries_max = DELIVERIES_MAX
        self.lines: list[str] = []

    def run(self, text: str) -> list[str]:
        """A command, or `quietly` and a command: then only what is different afterwards is printed."""
        self.lines = []
        before = self._states()
        is_quiet = text.startswith("quietly ")
        command = Command.parse(text.removeprefix("quietly "))
        getattr(self, command.method)(command)
        if is_quiet:
            after = self._states()
            self.lines = [after[node_id] for node_id in after if after[node_id] != before.get(node_id)]
        printed = self.lines + [f"VIOLATION: {line}" for line in self.truth.violations]
        self.truth.violations.clear()
        return printed or ["ok"]

    def note(self, line: str) -> None:
        self.lines.append(line)

    def _states(self) -> dict[int, str]:
        return {node_id: self._state(node) for node_id, node in sorted(self.nodes.items())}

    def _state(self, node: Node) -> str:
        core = node.core
        if not node.is_up:
            role = "down"
        elif core.is_leader:
            role = "leader"
        else:
            role = "knows no leader" if core.leader_id is None else f"follows {core.leader_id}"
        observer = "" if core.is_voter else " (observer)"
        high_watermark = core.high_watermark if node.is_up else "-"
        epoch = node.disk.state.epoch
        return (
            f"{node.node_id}{observer} {role} epoch={epoch} high_watermark={high_watermark} {node.disk.log}"
        )

    # Nodes

    def do_nodes(self, command: Command) -> None:
        """The voters, and the observers beside them; all start."""
        observers = [int(each) for each in command.options.get("observers", "").split(",") if each]
        self.configured = VoterSet.of_ids(command.ids)
        for place, node_id in enumerate([*command.ids, *observers]):
            self.jitter_ms[node_id] = place * JITTER_STEP_MS
            self._boot(node_id, self._new_disk())

    def do_found(self, command: Command) -> None:
        """A cluster that is founded already: the first node leads epoch 1, and all hold its first entries."""
        self.do_nodes(command)
        self.do_campaign(Command("campaign", command.words[:1], {}))
        self.do_settle(Command("settle", [], {}))
        self.lines = [
            f"{command.words[0]} leads epoch 1, and {self.nodes[1].core.high_watermark} is committed"
        ]

    def _new_disk(self) -> Disk:
        self.disks_made += 1
        return Disk(UUID(int=self.disks_made))

    def _boot(self, node_id: int, disk: Disk) -> None:
        self.nodes[node_id] = Node(self, node_id, disk)
        self.nodes[node_id].start()

    def do_start(self, command: Command) -> None:
        for node_id in command.ids:
            assert not self.nodes[node_id].is_up
            self._boot(node_id, self.nodes[node_id].disk)

    def do_crash(self, command: Command) -> None:
        for node_id in command.ids:
            node = self.nodes[node_id]
            node.is_up = False
            node.disk.log.crash()
            unsent = [each for each in self.in_flight if each.source == node_id and each.asker is not node]
            self.in_flight = [each for each in self.in_flight if each.source != node_id]
            waiting = [*node.requests.values(), *unsent]
            for asker in {each.asker: None for each in waiting if isinstance(each.message, FETCHES)}:
                if self.nodes[asker.node_id] is asker and asker.is_up:
                    self.note(f"{asker.node_id} loses its connection to {node_id}")
                    asker.fetch_failed(is_down=False)

    def do_wipe(self, command: Command) -> None:
        for node_id in command.ids:
            self.nodes[node_id].disk = self._new_disk()

    def do_pause(self, command: Command) -> None:
        for node_id in command.ids:
            self.nodes[node_id].is_paused = True

    def do_resume(self, command: Command) -> None:
        for node_id in command.ids:
            self.nodes[node_id].is_paused = False

    def do_resign(self, command: Command) -> None:
        for node_id in command.ids:
            self.nodes[node_id].resign()

    def do_append(self, command: Command) -> None:
        node_id, *values = command.words
        if not self.nodes[int(node_id)].append(values):
            self.note(f"{node_id} takes no entries")

    def do_snapshot(self, command: Command) -> None:
        for node_id in command.ids:
            if not self.nodes[node_id].snapshot():
                self.note(f"{node_id} takes no snapshot")

    def do_show(self, command: Command) -> None:
        states = self._states()
        self.lines += [states[node_id] for node_id in command.ids or states]

    def do_voters(self, command: Command) -> None:
        """Whom a node takes for voters: `3/5` is node 3 with the fifth disk of this script."""
        for node_id in command.ids:
            seats = self.nodes[node_id].core.voters.seats.items()
            shown = " ".join(f"{seat}/{storage.int if storage else '-'}" for seat, storage in seats)
            self.note(f"{node_id} voters {shown}")

    def do_must(self, command: Command) -> None:
        """`must 3 follow=1`, and fetch from it."""
        leader = self.nodes[int(command.options["follow"])]
        for node_id in command.ids:
            if not leader.is_serving_fetch_of(self.nodes[node_id]):
                self.truth.violations.append(f"{node_id} does not follow {leader.node_id}")

    # Network

    def do_cut(self, command: Command) -> None:
        """`1->2` one way, `1-2` both."""
        for word in command.words:
            source, target = map(int, word.replace("->", "-").split("-"))
            self.cuts.add((source, target))
            if "->" not in word:
                self.cuts.add((target, source))

    def do_heal(self, command: Command) -> None:
        self.cuts.clear()

    def do_fetch_entries(self, command: Command) -> None:
        """How many entries the answer to a fetch has at most."""
        (self.fetch_entries_max,) = command.ids

    def do_deliver(self, command: Command) -> None:
        """What is in flight now, or of that what a word names: `1->2`, `1->`, `->2`; not what it leads to."""
        for envelope in [each for each in self.in_flight if self._is_meant(each, command.words)]:
            self._deliver(envelope)

    def do_settle(self, command: Command) -> None:
        """Deliver until nothing is in flight; time stands still."""
        for _ in range(DELIVERIES_MAX):
            ready = [each for each in self.in_flight if self._is_meant(each, command.words)]
            if not ready:
                return
            self._deliver(ready[0])
        raise AssertionError("the nodes do not come to rest")

    def do_drop(self, command: Command) -> None:
        for envelope in [each for each in self.in_flight if self._is_meant(each, command.words)]:
            self.in_flight.remove(envelope)
            self.note(f"{show(envelope)} is lost")

    def _is_meant(self, envelope: Envelope, words: list[str]) -> bool:
        target = self.nodes[envelope.to]
        if target.is_paused:
            return False
        if isinstance(envelope.message, FetchRequest) and target.is_serving_fetch_of(envelope.asker):
            return False
        names = {f"{envelope.source}->", f"->{envelope.to}", f"{envelope.source}->{envelope.to}"}
        return not words or not names.isdisjoint(words)

    def _deliver(self, envelope: Envelope) -> None:
        self.in_flight.remove(envelope)
        source, target = self.nodes[envelope.source], self.nodes[envelope.to]
        if (envelope.source, envelope.to) in self.cuts:
            self.note(f"{show(envelope)} is lost")
        elif not target.is_up:
            self.note(f"{show(envelope)} finds nobody")
            if isinstance(envelope.message, FetchRequest):
                source.fetch_failed(is_down=True)
            elif isinstance(envelope.message, VoteRequest):
                source.vote_failed(envelope.to)
        elif isinstance(envelope.message, ANSWERS) and self._is_given_up(envelope, target):
            self.note(f"{show(envelope)} comes too late")
        else:
            self.note(show(envelope))
            target.receive(envelope)

    def _is_given_up(self, envelope: Envelope, target: Node) -> bool:
        """The process that asked is gone, or its driver has waited for long enough."""
        patience = 1 if target.core.is_voter else OBSERVER_PATIENCE
        waited_ms = self.now_ms - envelope.asked_at_ms
        return envelope.asker is not target or waited_ms > self.limits.request_ms_max * patience

    # Time

    def do_jitter(self, command: Command) -> None:
        """How far above the lower bound each node's waits are."""
        for node_id, time in command.options.items():
            self.jitter_ms[int(node_id)] = duration_ms(time)

    def do_tick(self, command: Command) -> None:
        """The clock goes to the next deadline of this node, which is kept by it alone."""
        for node_id in command.ids:
            node = self.nodes[node_id]
            self.now_ms = max(self.now_ms, node.core.next_deadline_ms)
            node.tick()

    def do_campaign(self, command: Command) -> None:
        """The node hears from nobody until it asks for votes."""
        (node_id,) = command.ids
        for _ in range(DELIVERIES_MAX):
            self.do_tick(command)
            if any(
                isinstance(each.message, VoteRequest) and each.source == node_id for each in self.in_flight
            ):
                self.note(f"{node_id} asks for votes at {self.now_ms} ms")
                return
            self.in_flight = [each for each in self.in_flight if each.source != node_id]
        raise AssertionError(f"{node_id} does not ask for votes")

    def do_elect(self, command: Command) -> None:
        """Long after a leader was heard, the node asks those named for their votes, up to three times.

        If it is elected, nobody knows yet: all that is in flight is lost.
        """
        (candidate,) = command.ids
        core = self.nodes[candidate].core
        voters = command.options["by"].split(",")
        for _ in range(3):
            self.now_ms += self.limits.election_ms_max
            self.do_campaign(command)
            for _ in range(2):  # pre-vote and vote
                self.do_deliver(Command("deliver", [f"{candidate}->{voter}" for voter in voters], {}))
                self.do_deliver(Command("deliver", [f"{voter}->{candidate}" for voter in voters], {}))
            self.in_flight.clear()
            if core.is_leader:
                self.lines = [f"{candidate} leads epoch {core.epoch}, elected by {command.options['by']}"]
                return
        self.lines = [f"{candidate} is not elected by {command.options['by']}"]

    def do_advance(self, command: Command) -> None:
        """Time passes: deadlines are kept, and messages delivered at once."""
        end_ms = self.now_ms + duration_ms(command.words[0])
        self.do_settle(Command("settle", [], {}))
        while True:
            running = [node for node in self.nodes.values() if node.is_up and not node.is_paused]
            due = min(running, key=lambda node: node.core.next_deadline_ms)
            if due.core.next_deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due.core.next_deadline_ms)
            due.tick()
            self.do_settle(Command("settle", [], {}))
        self.now_ms = end_ms
