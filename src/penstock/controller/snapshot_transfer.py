"""FetchSnapshot (59): how a snapshot of the metadata comes from the leader to a node, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.metadata.internal_topics import METADATA_TOPIC
from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from penstock.peers.peers import Peers
    from penstock.replication.divergence import LogEnd
    from penstock.wire.shapes import Body

FETCH_SNAPSHOT: Final = (59, 1)
PIECE_BYTES: Final = 4 * 1024 * 1024
SNAPSHOT_BYTES_MAX: Final = 1024 * 1024 * 1024
PIECE_S_MAX: Final = 5.0


async def fetch_snapshot(peers: Peers, leader_id: int, end: LogEnd, cluster_id: str) -> bytes:
    data = bytearray()
    while True:
        body = request_body(end, len(data), cluster_id)
        answer = await peers.ask(leader_id, Lane.METADATA, *FETCH_SNAPSHOT, body, timeout_s=PIECE_S_MAX)
        partition = answer.topics[0].partitions[0] if answer.topics else None
        if partition is None or partition.error_code is not ErrorCode.none:
            raise ApiError(partition.error_code if partition is not None else answer.error_code)
        if not 0 < partition.size <= SNAPSHOT_BYTES_MAX or partition.position != len(data):
            raise PeerError(f"node {leader_id} sends a snapshot that makes no sense")
        data += partition.unaligned_records or b""
        if len(data) >= partition.size:
            return bytes(data)
        if not partition.unaligned_records:
            raise PeerError(f"node {leader_id} sends no more of its snapshot")


def request_body(end: LogEnd, position: int, cluster_id: str) -> Body:
    partition = {
        "partition": 0,
        "snapshot_id": {"end_offset": end.end_offset, "epoch": end.last_epoch},
        "position": position,
    }
    return {
        "cluster_id": cluster_id or None,
        "max_bytes": PIECE_BYTES,
        "topics": [{"name": METADATA_TOPIC, "partitions": [partition]}],
    }
