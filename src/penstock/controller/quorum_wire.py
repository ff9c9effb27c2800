"""The quorum's messages as Kafka's APIs: Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54), Fetch (1).

Each carries one partition of one topic, the metadata log.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.controller.metadata_log import FETCH_BYTES_MAX, METADATA_TOPIC_ID
from penstock.metadata.internal_topics import METADATA_TOPIC
from penstock.quorum.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from penstock.quorum.voters import Voter
from penstock.replication.divergence import LogEnd
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.wire.batch import Buffer
    from penstock.wire.shapes import Body

FETCH, FETCH_VERSION = 1, 17
VOTE, VOTE_VERSION = 52, 2
BEGIN, BEGIN_VERSION = 53, 1
END, END_VERSION = 54, 1
NOBODY: Final = -1


class Api(NamedTuple):
    key: int
    version: int


def api_of(message: object) -> Api:
    match message:
        case VoteRequest():
            return Api(VOTE, VOTE_VERSION)
        case BeginQuorumEpoch():
            return Api(BEGIN, BEGIN_VERSION)
        case EndQuorumEpoch():
            return Api(END, END_VERSION)
        case FetchRequest():
            return Api(FETCH, FETCH_VERSION)
        case _:
            raise TypeError(f"{type(message)} is an answer")


def request_body(message: object, cluster_id: str | None, to: int) -> Body:
    match message:
        case VoteRequest():
            partition: dict[str, Any] = {
                "partition_index": 0,
                "replica_epoch": message.epoch,
                "replica_id": message.candidate.node_id,
                "replica_directory_id": message.candidate.storage_id,
                "voter_directory_id": message.voter_storage_id,
                "last_offset_epoch": message.log_end.last_epoch,
                "last_offset": message.log_end.end_offset,
                "pre_vote": message.is_pre_vote,
            }
            return {"cluster_id": cluster_id, "voter_id": to, "topics": _topics(partition)}
        case BeginQuorumEpoch(epoch, leader_id, storage_id):
            partition = {
                "partition_index": 0,
                "voter_directory_id": storage_id,
                "leader_id": leader_id,
                "leader_epoch": epoch,
            }
            return {"cluster_id": cluster_id, "voter_id": to, "topics": _topics(partition)}
        case EndQuorumEpoch(epoch, leader_id, successors):
            partition = {
                "partition_index": 0,
                "leader_id": leader_id,
                "leader_epoch": epoch,
                "preferred_candidates": [
                    {"candidate_id": node_id, "candidate_directory_id": storage_id}
                    for node_id, storage_id in successors.items()
                ],
            }
            return {"cluster_id": cluster_id, "topics": _topics(partition)}
        case FetchRequest():
            return _fetch_body(message, cluster_id)
        case _:
            raise TypeError(f"{type(message)} is no request")


def _topics(partition: Body) -> list[Body]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]


def _fetch_body(message: FetchRequest, cluster_id: str | None) -> Body:
    partition = {
        "partition": 0,
        "current_leader_epoch": message.epoch,
        "fetch_offset": message.offset,
        "last_fetched_epoch": message.last_epoch,
        "partition_max_bytes": FETCH_BYTES_MAX,
        "replica_directory_id": message.replica.storage_id,
    }
    return {
        "cluster_id": cluster_id,
        "replica_state": {"replica_id": message.replica.node_id},
        "max_wait": datetime.timedelta(0),  # how long it waits is the leader's limit
        "max_bytes": FETCH_BYTES_MAX,
        "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
    }


# Requests, as they arrive


def read_vote(partition: Any) -> VoteRequest:
    return VoteRequest(
        partition.replica_epoch,
        Voter(partition.replica_id, partition.replica_directory_id),
        LogEnd(partition.last_offset_epoch, partition.last_offset),
        partition.pre_vote,
        partition.voter_directory_id,
    )


def read_begin(partition: Any) -> BeginQuorumEpoch:
    return BeginQuorumEpoch(partition.leader_epoch, partition.leader_id, partition.voter_directory_id)


def read_end(partition: Any) -> EndQuorumEpoch:
    successors = {each.candidate_id: each.candidate_directory_id for each in partition.preferred_candidates}
    return EndQuorumEpoch(partition.leader_epoch, partition.leader_id, successors)


def read_fetch(replica_id: int, partition: Any) -> FetchRequest:
    return FetchRequest(
        partition.current_leader_epoch,
        Voter(replica_id, partition.replica_directory_id),
        partition.fetch_offset,
        partition.last_fetched_epoch,
    )


# Answers


def vote_answer(response: VoteResponse) -> Body:
    partition = {
        "partition_index": 0,
        "leader_id": NOBODY if response.leader_id is None else response.leader_id,
        "leader_epoch": response.epoch,
        "vote_granted": response.is_granted,
    }
    return {"topics": _topics(partition)}


def read_vote_answer(answer: Any, to: int, request: VoteRequest) -> VoteResponse:
    partition = answer.topics[0].partitions[0]
    return VoteResponse(
        partition.leader_epoch,
        to,
        _maybe_node(partition.leader_id),
        partition.vote_granted,
        request.is_pre_vote,
    )


def fetch_answer(response: FetchResponse, records: Buffer) -> Body:
    partition: dict[str, Any] = {
        "partition_index": 0,
        "error_code": ErrorCode.not_leader_or_follower if response.is_refused else ErrorCode.none,
        "high_watermark": response.high_watermark,
        "current_leader": {
            "leader_id": NOBODY if response.leader_id is None else response.leader_id,
            "leader_epoch": response.epoch,
        },
        "records": bytes(records),
    }
    if response.diverging is not None:
        epoch, end_offset = response.diverging
        partition["diverging_epoch"] = {"epoch": epoch, "end_offset": end_offset}
    if response.snapshot is not None:
        epoch, end_offset = response.snapshot
        partition["snapshot_id"] = {"epoch": epoch, "end_offset": end_offset}
    return {"responses": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}]}


def read_fetch_answer(answer: Any, request: FetchRequest) -> tuple[FetchResponse, Buffer]:
    partition = answer.responses[0].partitions[0]
    response = FetchResponse(
        partition.current_leader.leader_epoch,
        _maybe_node(partition.current_leader.leader_id),
        partition.high_watermark,
        request.offset,
        _maybe_end(partition.diverging_epoch),
        _maybe_end(partition.snapshot_id),
        is_refused=partition.error_code is not ErrorCode.none,
    )
    return response, partition.records or b""


def _maybe_node(node_id: int) -> int | None:
    return None if node_id == NOBODY else int(node_id)


def _maybe_end(value: Any) -> LogEnd | None:
    return None if value.end_offset < 0 else LogEnd(value.epoch, value.end_offset)
