"""Each message of the quorum on its way: written, read by kio, and made a message again."""

from __future__ import annotations

import io
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from penstock.controller import quorum_wire
from penstock.controller.metadata_log import METADATA_TOPIC_ID
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
from penstock.wire.codec import load_codec, read_request_header
from penstock.wire.exchange import load_exchange

ME = Voter(1, UUID(int=11))
CLUSTER = "a-cluster"

VOTES = [
    VoteRequest(5, ME, LogEnd(4, 1 << 40), False, UUID(int=22)),
    VoteRequest(5, ME, LogEnd(4, 17), True, None),
    VoteRequest(1, ME, LogEnd(-1, 0), True, None),
]
ENDS = [EndQuorumEpoch(7, 2, {}), EndQuorumEpoch(7, 2, {3: UUID(int=33), 1: None})]
BEGINS = [BeginQuorumEpoch(9, 3, UUID(int=22)), BeginQuorumEpoch(9, 3, None)]
FETCHES = [FetchRequest(3, ME, 0, -1), FetchRequest(1 << 30, ME, 1 << 40, 2)]
VOTE_ANSWERS = [
    VoteResponse(5, 2, None, True, True),
    VoteResponse(6, 2, 3, False, True),
]
FETCH_ANSWERS = [
    FetchResponse(5, 1, 10, 7),
    FetchResponse(5, 1, 10, 7, diverging=LogEnd(3, 6)),
    FetchResponse(5, 1, 10, 7, diverging=LogEnd(0, 0)),
    FetchResponse(5, 1, 10, 7, snapshot=LogEnd(4, 9)),
    FetchResponse(6, None, 0, 7, is_refused=True),
    FetchResponse(6, 3, 0, 7, is_refused=True),
]


def sent(message: Any, cluster_id: str | None = CLUSTER) -> Any:
    """The request as the other node's kio reads it."""
    api = quorum_wire.api_of(message)
    body = quorum_wire.request_body(message, cluster_id, to=2)
    frame = memoryview(load_exchange(*api).request(1, "n", body))[4:]
    request, _ = load_codec(*api, range(api.version, api.version + 1)).read_request(
        frame, read_request_header(frame)
    )
    assert type(request) is load_request_schema(*api)
    return request


def answered(api: tuple[int, int], body: Any) -> Any:
    """The answer as the asking node's kio reads it."""
    frame = load_codec(*api, range(api[1], api[1] + 1)).write_response(1, body)
    return load_exchange(*api).response(frame[4:])


@pytest.mark.parametrize("message", VOTES)
def test_a_request_for_a_vote(message: VoteRequest) -> None:
    request = sent(message)
    assert (request.cluster_id, request.voter_id) == (CLUSTER, 2)
    (topic,) = request.topics
    assert topic.topic_name == METADATA_TOPIC
    (partition,) = topic.partitions
    assert quorum_wire.read_vote(partition) == message


@pytest.mark.parametrize("message", BEGINS)
def test_a_new_leader(message: BeginQuorumEpoch) -> None:
    request = sent(message)
    assert (request.cluster_id, request.voter_id) == (CLUSTER, 2)
    assert quorum_wire.read_begin(request.topics[0].partitions[0]) == message


@pytest.mark.parametrize("message", ENDS)
def test_a_leader_that_resigns(message: EndQuorumEpoch) -> None:
    request = sent(message)
    assert request.cluster_id == CLUSTER
    assert quorum_wire.read_end(request.topics[0].partitions[0]) == message


@pytest.mark.parametrize("message", FETCHES)
def test_a_fetch(message: FetchRequest) -> None:
    request = sent(message)
    assert request.cluster_id == CLUSTER
    (topic,) = request.topics
    assert topic.topic_id == METADATA_TOPIC_ID
    (partition,) = topic.partitions
    assert quorum_wire.read_fetch(request.replica_state.replica_id, partition) == message


@pytest.mark.parametrize("message", [VOTES[0], BEGINS[0], ENDS[0], FETCHES[0]])
def test_a_node_without_a_cluster_names_none(message: Any) -> None:
    assert sent(message, cluster_id=None).cluster_id is None


@pytest.mark.parametrize("response", VOTE_ANSWERS)
def test_a_vote(response: VoteResponse) -> None:
    answer = answered(quorum_wire.api_of(VOTES[1]), quorum_wire.vote_answer(response))
    assert answer.error_code is ErrorCode.none
    assert quorum_wire.read_vote_answer(answer, 2, VOTES[1]) == response


def test_whether_it_was_a_pre_vote_is_known_from_the_request() -> None:
    answer = answered(quorum_wire.api_of(VOTES[0]), quorum_wire.vote_answer(VOTE_ANSWERS[0]))
    assert not quorum_wire.read_vote_answer(answer, 2, VOTES[0]).is_pre_vote


@pytest.mark.parametrize("response", FETCH_ANSWERS)
def test_an_answer_to_a_fetch(response: FetchResponse) -> None:
    request = FetchRequest(5, ME, 7, 3)
    api = quorum_wire.api_of(request)
    for records in (b"", b"records"):
        answer = answered(api, quorum_wire.fetch_answer(response, memoryview(records)))
        assert answer.error_code is ErrorCode.none
        found, got = quorum_wire.read_fetch_answer(answer, request)
        assert (found, bytes(got)) == (response, records)


def test_what_is_no_request_is_not_sent() -> None:
    for answer in (VOTE_ANSWERS[0], FETCH_ANSWERS[0]):
        with pytest.raises(TypeError):
            quorum_wire.api_of(answer)
        with pytest.raises(TypeError):
            quorum_wire.request_body(answer, CLUSTER, 1)


@pytest.mark.parametrize("message", [VOTES[0], FETCHES[0]])
def test_an_error_of_the_whole_request_has_no_partitions(message: Any) -> None:
    """As a node of another cluster answers: the error must be looked at before the partitions are."""
    api = quorum_wire.api_of(message)
    answer = answered(api, {"error_code": ErrorCode.inconsistent_cluster_id})
    assert answer.error_code is ErrorCode.inconsistent_cluster_id
    written = io.BytesIO()
    response_type = load_response_schema(*api)
    entity_writer(response_type)(written, answer)
    again, _ = entity_reader(response_type)(written.getvalue(), 0)
    assert again == answer
