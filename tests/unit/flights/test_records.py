"""Records and states survive the way to a topic and back; what is none of them is refused in one line."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.flights.jobs import FILES, QUERIES, FileProgress, Job, QueryProgress, State
from penstock.flights.records import (
    MESSAGES_MAX,
    Chunk,
    End,
    Heartbeat,
    RecordError,
    Request,
    ResultEnd,
    ResultRows,
    chunk_headers,
    end_headers,
    parse_fastest_of,
    parse_job,
    parse_request,
    parse_result,
    parse_upload,
    request_value,
    result_end_headers,
    rows_headers,
)

numbers = st.integers(0, MESSAGES_MAX)
queries = st.sampled_from(QUERIES)
times = st.integers(0, 2**53)
texts = st.text(st.characters(exclude_categories=["Cs"]))
files = st.builds(FileProgress, numbers, numbers, st.none() | numbers, times, numbers)
progress = st.builds(QueryProgress, st.sampled_from(["later", "partial", "complete"]), numbers)
jobs = st.builds(
    Job,
    st.uuids().map(str),
    st.sampled_from(State),
    st.none() | texts,
    times,
    times,
    st.fixed_dictionaries(dict.fromkeys(FILES, files)),
    st.fixed_dictionaries(dict.fromkeys(QUERIES, progress)),
    numbers,
    numbers,
    st.integers(0, 100),
    times,
    st.none() | st.dictionaries(texts, numbers | texts, max_size=3),
    st.booleans(),
)


@given(numbers)
def test_chunks_and_ends(number: int) -> None:
    assert parse_upload(chunk_headers(number)) == Chunk(number)
    assert parse_upload([("trace", None), *end_headers(number)]) == End(number)


@given(queries, numbers, texts)
def test_results(query: str, number: int, reason: str) -> None:
    assert parse_result(rows_headers(query, number)) == ResultRows(query, number)
    for end in (ResultEnd(query, number), ResultEnd(query, None, reason)):
        assert parse_result(result_end_headers(end)) == end


@pytest.mark.parametrize("request_", Request)
def test_requests(request_: Request) -> None:
    assert parse_request(request_value(request_)) is request_
    assert parse_fastest_of(request_value(request_)) == "many-stopovers"
    assert parse_request(request_value(request_, "all")) is request_
    assert parse_fastest_of(request_value(request_, "all")) == "all"


@given(
    st.builds(Heartbeat, texts, numbers, texts, texts, times, times, st.dictionaries(texts, times), numbers)
)
def test_heartbeats(heartbeat: Heartbeat) -> None:
    assert Heartbeat.from_json(heartbeat.to_json()) == heartbeat


@given(jobs, st.none() | st.dictionaries(texts, numbers, max_size=2))
def test_states_of_jobs(job: Job, private: dict[str, Any] | None) -> None:
    assert Job.from_json(job.to_json(private)) == job
    assert Job.with_private(job.to_json(private)) == (job, private or {})
    assert "ledger" not in job.as_dict()


@given(st.uuids())
def test_ids_of_jobs_have_one_form(job: uuid.UUID) -> None:
    for form in (str(job), str(job).upper(), job.hex, f"{{{job}}}", job.urn, str(job).encode()):
        assert parse_job(form) == str(job)


@pytest.mark.parametrize("text", [None, "", "x", b"\xff", b"", "1" * 31, "g" * 32, "1" * 100])
def test_what_is_no_id(text: str | bytes | None) -> None:
    with pytest.raises(RecordError, match="is not the UUID of a job") as error:
        parse_job(text)
    assert len(str(error.value)) < 120


@pytest.mark.parametrize("value", [None, b"", b"-1", b"1.0", b"x", b"1" * 11, b"1000000001", "²".encode()])
def test_what_is_no_number(value: bytes | None) -> None:
    for headers in ([("message", value)], [("end", value)]):
        with pytest.raises(RecordError):
            parse_upload(headers)
    with pytest.raises(RecordError):
        parse_result([("query", b"q1"), ("rows", value)])
    with pytest.raises(RecordError):
        parse_result([("query", b"q1"), ("end", value)])


def test_records_that_are_nothing() -> None:
    for headers in (None, [], [("other", b"1")]):
        with pytest.raises(RecordError):
            parse_upload(headers)
        with pytest.raises(RecordError):
            parse_result(headers)
    for value in (None, b"", b"{", b"[]", b"3", b"{}", b'{"request": "stop"}', b'{"request": []}'):
        with pytest.raises(RecordError):
            parse_request(value)
    for value in (None, b"[]", b'{"fastest_of": "none"}', b'{"fastest_of": []}', b'{"fastest_of": null}'):
        with pytest.raises(RecordError):
            parse_fastest_of(value)


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{", b"[]", b"3", b"null", b"{}", b'{"state": "odd"}', b'{"state": "failed", "files": 3}'],
)
def test_what_is_no_state_and_no_heartbeat(value: bytes | None) -> None:
    with pytest.raises(RecordError):
        Job.from_json(value)
    with pytest.raises(RecordError):
        Heartbeat.from_json(value)


@given(jobs)
def test_a_state_with_unknown_fields_is_refused(job: Job) -> None:
    with pytest.raises(RecordError):
        Job.from_json(replace(job).to_json()[:-1] + b',"more":1}')


HEARTBEAT = orjson.loads(Heartbeat("flights", 42, "here", "running", 1_000, 500, {"jobs": 7}).to_json())
JOB = orjson.loads(Job(str(uuid.UUID(int=1))).to_json())


@pytest.mark.parametrize(
    "wrong",
    [
        {"pid": "42"}, {"pid": True}, {"pid": None}, {"pid": -1}, {"pid": 1e9}, {"pid": 2**60},
        {"host": 3}, {"state": []}, {"at_ms": "now"}, {"at_ms": -1}, {"limits": []}, {"batch": "3"},
        {"limits": {"jobs": "7"}}, {"limits": {"jobs": -7}},
    ],
    ids=str,
)  # fmt: skip
def test_a_heartbeat_whose_fields_are_of_another_kind_is_refused(wrong: dict[str, Any]) -> None:
    assert Heartbeat.from_json(orjson.dumps(HEARTBEAT))
    with pytest.raises(RecordError):
        Heartbeat.from_json(orjson.dumps(HEARTBEAT | wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"job": "/tmp/elsewhere"}, {"job": "../other"}, {"job": 3}, {"job": None}, {"reason": 3},
        {"created_ms": "long ago"}, {"updated_ms": None}, {"rows_read": -1}, {"results_offset": 0.5},
        {"summary": []}, {"expired": "no"}, {"files": {}},
        {"files": {name: {"bytes": "1"} for name in FILES}}, {"queries": {}}, {"ledger": []},
        {"queries": {name: {"state": "soon"} for name in QUERIES}},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_whose_fields_are_of_another_kind_is_refused(wrong: dict[str, Any]) -> None:
    assert Job.from_json(orjson.dumps(JOB))
    with pytest.raises(RecordError):
        Job.from_json(orjson.dumps(JOB | wrong))


def test_which_states_are_final() -> None:
    assert {state for state in State if state.is_final} == {State.COMPLETE, State.FAILED, State.DELETED}
    assert not FileProgress(3, 3).is_complete
    assert not FileProgress(3, 4, 4).is_complete
    assert FileProgress(4, 4, 4).is_complete
