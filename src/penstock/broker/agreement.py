"""Agreement of replicas: a follower compares digests of what it scrubs with those of its leader.

Committed batches are the same bytes in every replica. If a follower has others, all with good CRCs, it has
diverged, and the leader's log is the one that counts: the follower goes out of service and is filled anew
(see damaged_logs.py). What it had is kept aside.

No verdict is given where bytes may differ, or nobody can tell:

* what was compacted, since each replica compacts by itself;
* what is not committed, or was not yet found to continue the leader's log in this leader epoch; a role that
  changes between the read and the answer ends the comparison;
* what begins before the leader's log start, is damaged in the leader, or is larger than BYTES_MAX;
* a leader that does not answer. The next round asks again.

The request is FetchSnapshot, see handlers/fetch_snapshot.py.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.storage.interface import DamagedRange
from penstock.storage.scrubbing import RangeDigest
from penstock.types import ApiError, ErrorCode
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.broker.damaged_logs import DamagedLogs
    from penstock.broker.metrics import Metrics
    from penstock.broker.partition import Partition
    from penstock.peers.peers import Peers
    from penstock.storage.scrubbing import ScrubPiece

log = logging.getLogger(__name__)

FETCH_SNAPSHOT: Final = (59, 1)
ANSWER_S_MAX: Final = 10.0
TRY_AGAIN_S: Final = 60.0
"""After a leader did not answer: a round must not wait for it once for each piece."""
BYTES_MAX: Final = 4 << 20
"""Of the range that a request may be about; a piece has about 1 MiB, or one batch."""
READ_BYTES: Final = 256 << 10
"""Read at once by the event loop, which has other things to do."""


class Leader(NamedTuple):
    """The one that a follower has to agree with, in its leader epoch."""

    id: int
    epoch: int


def maybe_leader(partition: Partition, piece: ScrubPiece) -> Leader | None:
    """Whom to compare with. Before the piece is read and after the answer it must be the same."""
    follower, stored = partition.follower, partition.log
    if follower is None or stored.closed or stored.error is not None or piece.size > BYTES_MAX:
        return None
    stretch = piece.stretch
    if stretch.end_offset > follower.confirmed_end_offset or _is_compacted(partition, stretch.first_offset):
        return None
    return Leader(follower.state.leader, follower.state.leader_epoch)


async def digest_here(partition: Partition, first_offset: int, end_offset: int, leader_epoch: int) -> bytes:
    """As the leader's answer. ApiError or StorageError if there is none, with no more read than BYTES_MAX."""
    digest = RangeDigest(first_offset, end_offset)
    size = 0
    while True:
        # Also after the last part: all of it has to be of this epoch, and not compacted meanwhile.
        _check_leads(partition, first_offset, end_offset, leader_epoch)
        batches = partition.log.read(digest.next_offset, READ_BYTES, end_offset=end_offset)
        if not batches:
            return digest.digest()
        size += len(batches)
        if size > BYTES_MAX:
            raise ApiError(ErrorCode.message_too_large)
        # The CRCs as well: what rotted since it was first read must not count against a follower.
        await asyncio.get_running_loop().run_in_executor(None, digest.add, batches)


def _check_leads(partition: Partition, first_offset: int, end_offset: int, leader_epoch: int) -> None:
    partition.check_serves_offsets()
    if leader_epoch != partition.leader_epoch:
        raise ApiError(ErrorCode.fenced_leader_epoch)
    if partition.log.error is not None:
        raise ApiError(ErrorCode.kafka_storage_error)
    is_here = partition.log_start_offset <= first_offset < end_offset <= partition.high_watermark
    if not is_here or _is_compacted(partition, first_offset):
        raise ApiError(ErrorCode.offset_out_of_range)


def _is_compacted(partition: Partition, first_offset: int) -> bool:
    """Also if the topic is not compacted any more."""
    return partition.config.compact or first_offset < partition.log.compacted_to


class Agreement:
    def __init__(self, node_id: int, peers: Peers, damaged_logs: DamagedLogs, metrics: Metrics) -> None:
        self._node_id = node_id
        self._peers = peers
        self._damaged_logs = damaged_logs
        self._metrics = metrics
        self._silent_until_s: dict[int, float] = {}

    async def maybe_disagreement(
        self, partition: Partition, piece: ScrubPiece, digest: bytes, leader: Leader
    ) -> DamagedRange | None:
        """Where this replica was found to differ: then its log has been given up."""
        theirs = await self._maybe_digest(partition, piece, leader)
        if theirs in (None, digest) or maybe_leader(partition, piece) != leader:
            return None
        start, _, first_offset, end_offset = piece.stretch
        reason = f"offsets {first_offset} to {end_offset - 1} are not those of broker {leader.id}, the leader"
        self._metrics.scrub_disagreements += 1
        log.error(
            "%s: %s in epoch %d, although all CRCs are good: broker %d fills its log anew",
            partition.log.name, reason, leader.epoch, self._node_id,
        )  # fmt: skip
        await self._damaged_logs.add(partition.log.name, partition.topic_id, reason)
        partition.give_up(reason)
        return DamagedRange(piece.segment.path, start, piece.size, first_offset, end_offset, reason)

    async def _maybe_digest(self, partition: Partition, piece: ScrubPiece, leader: Leader) -> bytes | None:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._silent_until_s.get(leader.id, now_s):
            return None
        body = _question(partition, piece, leader)
        try:
            answer = await self._peers.ask(
                leader.id, Lane.REPAIRS, *FETCH_SNAPSHOT, body, timeout_s=ANSWER_S_MAX
            )
            told = answer.topics[0].partitions[0]
        except (PeerError, DecodeError, IndexError) as error:
            log.info("%s: broker %d tells no digest: %s", partition.log.name, leader.id, error)
            self._silent_until_s[leader.id] = now_s + TRY_AGAIN_S
            return None
        if told.error_code is not ErrorCode.none:
            log.info("%s: broker %d answers %s", partition.log.name, leader.id, told.error_code.name)
            return None
        answered = bytes(told.unaligned_records or b"")
        # Or else it speaks of another topic of this name, of which this node has not heard yet.
        return answered[16:] if answered[:16] == partition.topic_id.bytes else None


def _question(partition: Partition, piece: ScrubPiece, leader: Leader) -> dict[str, Any]:
    asked = {
        "partition": partition.index,
        "current_leader_epoch": leader.epoch,
        "snapshot_id": {"end_offset": piece.stretch.end_offset, "epoch": leader.epoch},
        "position": piece.stretch.first_offset,
    }
    return {"topics": [{"name": partition.topic, "partitions": [asked]}]}
