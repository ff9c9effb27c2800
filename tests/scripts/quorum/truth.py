"""What must hold in every script, whatever it prints: the rules of the Raft paper's figures 2 and 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.quorum.messages import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from penstock.quorum.messages import ElectionState
    from tests.scripts.log import Entry
    from tests.scripts.quorum.node import Disk, Envelope


class Truth:
    def __init__(self) -> None:
        self.violations: list[str] = []
        self._committed: list[Entry] = []
        self._leaders: dict[int, int] = {}

    def leads(self, node_id: int, epoch: int, disk: Disk) -> None:
        if self._leaders.setdefault(epoch, node_id) != node_id:
            self._violated(f"epoch {epoch} has two leaders, {self._leaders[epoch]} and {node_id} (Raft, 5.2)")
        if disk.prefix(len(self._committed)) != self._committed:
            self._violated(f"{node_id} leads epoch {epoch} without all that is committed (Raft, 5.4)")

    def commits(self, node_id: int, high_watermark: int, disk: Disk) -> None:
        held = disk.prefix(high_watermark)
        common = min(len(held), len(self._committed))
        if len(held) < high_watermark:
            self._violated(f"{node_id} commits {high_watermark}, and has {len(held)}")
        elif held[:common] != self._committed[:common]:
            self._violated(f"{node_id} commits something else than was committed (Raft, 5.4.3)")
        else:
            self._committed += held[common:]

    def sends(self, envelope: Envelope, on_disk: ElectionState) -> None:
        if envelope.message.epoch > on_disk.epoch:
            self._violated(f"{envelope.source} speaks in an epoch that is not on its disk (Raft, figure 2)")

    def answers(self, request: Envelope, answer: Envelope, on_disk: ElectionState) -> None:
        asked, response = request.message, answer.message
        if isinstance(asked, VoteRequest) and isinstance(response, VoteResponse):
            is_vote = response.is_granted and not asked.is_pre_vote
            if is_vote and on_disk.voted_for != asked.candidate:
                self._violated(f"{answer.source} gives a vote that is not on its disk (Raft, figure 2)")

    def _violated(self, line: str) -> None:
        self.violations.append(line)
