"""Jobs from two topics that are followed side by side."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.flights.jobs import FileProgress, Job, State
from penstock.flights.records import Request, request_value
from penstock.gateway.flights.jobs_view import JobsView


def name(number: int) -> str:
    return str(UUID(int=number))


def key(number: int) -> bytes:
    return name(number).encode()


def told(number: int, state: State = State.RECEIVING, *, size: int = 0, at_ms: int = 0) -> Job:
    files = {"itineraries": FileProgress(bytes=size), "airports": FileProgress()}
    return Job(name(number), state, created_ms=number, updated_ms=at_ms, files=files)


def apply(view: JobsView, job: Job) -> None:
    assert view.apply_job(job.job.encode(), job.to_json({"secret": 1})) == job


def request(view: JobsView, number: int, what: Request, at_ms: int = 0) -> None:
    view.apply_request(key(number), request_value(what), at_ms)


def test_a_job_is_there_before_the_service_says_so_and_gone_before_it_does() -> None:
    view = JobsView(10)
    request(view, 1, Request.CREATE, 77)
    assert view.get(name(1)) == Job(name(1), created_ms=77, updated_ms=77)
    assert not view.is_told(name(1))
    apply(view, told(1, State.COMPUTING))
    assert view.get(name(1)) == told(1, State.COMPUTING)
    assert view.is_told(name(1))
    request(view, 1, Request.CREATE, 78)
    request(view, 1, Request.EXPIRE, 78)
    assert view.get(name(1)) == told(1, State.COMPUTING)
    request(view, 1, Request.DELETE)
    assert view.get(name(1)) == told(1, State.DELETED)
    apply(view, told(1, State.COMPUTING))  # told before it heard of that
    assert view.get(name(1)) == told(1, State.DELETED)
    assert view.newest(10) == []
    view.apply_job(key(1), None)
    assert view.get(name(1)) is None


def test_a_request_to_delete_what_is_not_there_says_nothing() -> None:
    view = JobsView(10)
    request(view, 1, Request.DELETE)
    request(view, 1, Request.CREATE)
    found = view.get(name(1))
    assert found is not None
    assert found.state is State.RECEIVING


def test_what_is_open_is_counted() -> None:
    view = JobsView(10)
    request(view, 1, Request.CREATE)
    request(view, 2, Request.CREATE)
    assert (view.open_jobs, view.open_bytes) == (2, 0)
    apply(view, told(1, size=100))
    apply(view, told(1, size=150))
    apply(view, told(3, size=10))
    assert (view.open_jobs, view.open_bytes) == (3, 160)
    apply(view, told(1, State.COMPLETE, size=150))
    assert (view.open_jobs, view.open_bytes) == (2, 10)
    view.clear_jobs()
    assert (view.open_jobs, view.open_bytes) == (1, 0)
    view.clear_requests()
    assert (view.open_jobs, len(view)) == (0, 0)


def test_the_newest_are_listed_first() -> None:
    view = JobsView(10)
    for number in (2, 5, 3):
        apply(view, told(number))
    request(view, 4, Request.CREATE, 4)
    assert [job.job for job in view.newest(3)] == [name(5), name(4), name(3)]


def test_over_the_limit_the_oldest_that_is_done_is_forgotten() -> None:
    view = JobsView(3)
    apply(view, told(1))
    apply(view, told(2, State.COMPLETE, at_ms=20))
    apply(view, told(3, State.FAILED, at_ms=10))
    apply(view, told(4))
    assert view.get(name(3)) is None
    apply(view, told(5))
    assert view.get(name(2)) is None
    apply(view, told(6))
    assert (len(view), view.open_jobs) == (3, 3)


def test_records_of_somebody_else_are_counted() -> None:
    view = JobsView(10)
    assert view.apply_job(b"x", told(1).to_json()) is None
    assert view.apply_job(key(1), b"{}") is None
    assert view.apply_job(key(1), told(2).to_json()) is None, "the state of another job"
    view.apply_request(key(1), b'{"request": "sell"}', 0)
    view.apply_request(None, request_value(Request.CREATE), 0)
    assert (view.refused, len(view)) == (5, 0)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["told", "create", "delete", "gone"]),
        st.integers(1, 4),
        st.sampled_from(list(State)),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(EVENTS)
def test_the_sums_are_those_of_the_jobs(events: list[tuple[str, int, State, int]]) -> None:
    view = JobsView(3)
    for what, number, state, size in events:
        if what == "told":
            job = replace(told(number, state, size=size))
            view.apply_job(job.job.encode(), job.to_json())
        elif what == "gone":
            view.apply_job(key(number), None)
        else:
            request(view, number, Request(what))
        every = [view.get(name(each)) for each in range(1, 5)]
        open_told = [job for job in view._told.values() if not job.state.is_final]
        assert len(view) <= 3
        assert len(view) == sum(job is not None for job in every)
        assert view.open_jobs == len(open_told) + len(view._wanted)
        assert view.open_bytes == sum(job.files["itineraries"].bytes for job in open_told)
        assert view._deleted <= view._told.keys() | view._wanted.keys()
