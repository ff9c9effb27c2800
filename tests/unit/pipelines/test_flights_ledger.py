"""The ledger of the Flights service: each message once, whatever comes twice, late or not at all."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.flights.jobs import Job, State
from penstock.flights.records import Request, ResultEnd, chunk_headers, end_headers, request_value
from penstock.flights.topics import AIRPORTS, ITINERARIES, PARTITIONS, REQUESTS
from penstock.pipelines.flights.service.entry import Piece
from penstock.pipelines.flights.service.intervals import Intervals
from penstock.pipelines.flights.service.ledger import (
    DELETED,
    FORGET_MS,
    LOST,
    Arrival,
    Ledger,
    Limits,
    results_partition,
)

JOB = str(UUID(int=1))
OTHER = str(UUID(int=2))
HEAD = b"a,b\n"
LENGTH = 100
ENDS = dict.fromkeys(range(PARTITIONS), 7)
HOUR = 3_600_000


def chunk(job: str, topic: str, message: int, at: int = 0, fault: str | None = None) -> Arrival:
    piece = Piece(f"{topic}-{job}", message * LENGTH, LENGTH)
    head = HEAD if message == 0 else None
    return Arrival(topic, at, job.encode(), chunk_headers(message), piece, head, fault)  # type: ignore[arg-type]


def end(job: str, topic: str, messages: int, at: int = 0) -> Arrival:
    return Arrival(topic, at, job.encode(), end_headers(messages))  # type: ignore[arg-type]


def request(job: str, which: Request, at: int = 0) -> Arrival:
    return Arrival(REQUESTS, at, job.encode(), [], value=request_value(which))


def airports(job: str) -> list[Arrival]:
    return [chunk(job, AIRPORTS, 0), end(job, AIRPORTS, 1)]


def told(ledger: Ledger, job: str = JOB) -> Job:
    """What is written of it now."""
    ledger._changed[job] = None
    value = dict(ledger.changed())[job]
    return Job.from_json(value)


def reloaded(ledger: Ledger, limits: Limits | None = None) -> Ledger:
    for job in ledger._entries:
        ledger._changed[job] = None
    return Ledger.load([value for _, value in ledger.changed() if value is not None], limits or Limits())


class Service:
    """Does what the ledger says, and notes what was reduced."""

    def __init__(self) -> None:
        self.ledger = Ledger(Limits())
        self.bytes: Counter[tuple[str, int]] = Counter()

    def batch(self, arrivals: list[Arrival]) -> None:
        self.ledger.apply(arrivals, ENDS)
        for ready in self.ledger.airports_ready():
            self.ledger.airports_known(ready.job, f"positions-{ready.job}")
        for rows in self.ledger.rows_ready():
            for piece in rows.pieces:
                for at in range(piece.position, piece.position + piece.length):
                    self.bytes[rows.job, at] += 1
            counts = {"q1": 1, "q2": 0}
            self.ledger.reduced(rows.job, [f"r-{rows.job}"], rows_read=1, rows_rejected=0, rows=counts)
        self.ledger = reloaded(self.ledger)


@given(st.lists(st.integers(0, 40)))
def test_intervals_are_a_set(numbers: list[int]) -> None:
    intervals, model = Intervals(), set()
    for number in numbers:
        assert intervals.add(number) is (number not in model)
        model.add(number)
        assert len(intervals) == len(model)
        assert intervals.next == next(n for n in range(50) if n not in model)
        assert intervals.end == max(model) + 1
    again = Intervals(intervals.as_ranges())
    assert [number for number in range(50) if number in again] == sorted(model)
    assert all(a_end < b_start for (_, a_end), (b_start, _) in zip(again.as_ranges(), again.as_ranges()[1:]))  # noqa: B905


@st.composite
def uploads(draw: st.DrawFn) -> tuple[dict[str, int], list[list[Arrival]]]:
    """Two jobs, all their records in any order, some again, cut into batches."""
    sizes = {JOB: draw(st.integers(1, 6)), OTHER: draw(st.integers(1, 6))}
    arrivals = []
    for job, messages in sizes.items():
        arrivals += airports(job)
        arrivals += [chunk(job, ITINERARIES, message) for message in range(messages)]
        arrivals += [end(job, ITINERARIES, messages)]
    again = draw(st.lists(st.sampled_from(arrivals), max_size=10))
    order = draw(st.permutations(arrivals + again))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=5)))
    batches = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    return sizes, batches


@given(uploads())
def test_every_byte_is_reduced_once_in_any_order(upload: tuple[dict[str, int], list[list[Arrival]]]) -> None:
    sizes, batches = upload
    service = Service()
    for batch in batches:
        service.batch(batch)
    expected = {(job, at) for job, messages in sizes.items() for at in range(len(HEAD), messages * LENGTH)}
    assert set(service.bytes) == expected
    assert set(service.bytes.values()) == {1}
    assert {each.job for each in service.ledger.computing()} == set(sizes)
    for job, messages in sizes.items():
        file = told(service.ledger, job).files["itineraries"]
        assert (file.next, file.received, file.messages) == (messages, messages, messages)
        assert file.bytes == messages * LENGTH


@given(uploads(), st.data())
def test_nothing_is_computed_while_a_record_is_missing(
    upload: tuple[dict[str, int], list[list[Arrival]]], data: st.DataObject
) -> None:
    sizes, batches = upload
    missing = data.draw(st.sampled_from([each for batch in batches for each in batch]))
    service = Service()
    for batch in batches:
        service.batch([each for each in batch if each != missing])
    job = missing.key.decode() if missing.key else ""
    assert told(service.ledger, job).state is State.RECEIVING
    assert {each.job for each in service.ledger.computing()} == set(sizes) - {job}


def test_messages_that_are_neighbours_are_one_piece() -> None:
    ledger = Ledger(Limits())
    ledger.apply([*airports(JOB), *(chunk(JOB, ITINERARIES, number) for number in range(1000))], ENDS)
    ledger.airports_known(JOB, "positions")
    (ready,) = ledger.rows_ready()
    assert ready.pieces == (Piece(f"{ITINERARIES}-{JOB}", len(HEAD), 1000 * LENGTH - len(HEAD)),)
    assert ready.header == HEAD.decode()


def test_which_flights_query_3_is_about_is_said_with_the_request() -> None:
    asked = Arrival(REQUESTS, 0, JOB.encode(), [], value=request_value(Request.CREATE, "all"))
    service = Service()
    service.batch([asked, *airports(JOB), chunk(JOB, ITINERARIES, 0)])
    assert told(service.ledger).fastest_of == "all"
    service.ledger = reloaded(service.ledger)
    service.batch([request(JOB, Request.CREATE), asked, chunk(JOB, ITINERARIES, 1)])
    (ready,) = service.ledger.rows_ready() or [None]
    assert ready is None or ready.fastest_of_all
    service.batch([end(JOB, ITINERARIES, 2)])
    (computing,) = service.ledger.computing()
    assert computing.fastest_of_all
    other = Service()
    other.batch([*airports(JOB), asked, chunk(JOB, ITINERARIES, 0)])
    assert told(other.ledger).fastest_of == "all", "the request may come with the first chunks"
    late = Service()
    late.batch([*airports(JOB), chunk(JOB, ITINERARIES, 0)])
    late.batch([asked])
    assert told(late.ledger).state is State.FAILED
    assert "after its rows" in (told(late.ledger).reason or "")


def test_a_job_is_complete_once_and_says_so_on_each_query() -> None:
    service = Service()
    service.batch([*airports(JOB), chunk(JOB, ITINERARIES, 0), end(JOB, ITINERARIES, 1)])
    ledger = service.ledger
    assert told(ledger).state is State.COMPUTING
    assert told(ledger).queries["q1"].state == "partial"
    assert told(ledger).queries["q3"].state == "later"
    assert ledger.paths() == {f"positions-{JOB}", f"r-{JOB}"}
    ledger.complete(JOB, {"queries": {"q1": 1, "q2": 0, "q3": 1, "q4": 2}})
    assert told(ledger).state is State.COMPLETE
    assert ledger.endings() == [
        (JOB, ResultEnd(query, rows)) for query, rows in (("q1", 1), ("q2", 0), ("q3", 1), ("q4", 2))
    ]
    assert ledger.endings() == []
    assert ledger.paths() == set()
    assert ledger.with_results() == {JOB}
    assert ledger.computing() == []


@pytest.mark.parametrize(
    ("arrivals", "reason"),
    [
        ([chunk(JOB, ITINERARIES, 3, fault="half a line")], "itineraries: message 3: half a line"),
        ([end(JOB, AIRPORTS, 0)], "airports: the file is empty"),
        (
            [end(JOB, ITINERARIES, 2), end(JOB, ITINERARIES, 3)],
            "itineraries: it ended after 2 messages, and then after 3",
        ),
        ([end(JOB, ITINERARIES, 2), chunk(JOB, ITINERARIES, 2)], "itineraries: message 2 after its end at 2"),
        (
            [chunk(JOB, ITINERARIES, 2), end(JOB, ITINERARIES, 2)],
            "itineraries: it ends after 2 messages, and message 2 was there",
        ),
        (
            [Arrival(ITINERARIES, 0, JOB.encode(), [("message", b"x")])],
            "itineraries: its header 'message' is b'x', which is no number",
        ),
        (
            [Arrival(ITINERARIES, 0, JOB.encode(), [])],
            "itineraries: it has neither the header 'message' nor 'end'",
        ),
    ],
)
def test_what_is_wrong_fails_this_job_alone(arrivals: list[Arrival], reason: str) -> None:
    service = Service()
    service.batch([*airports(OTHER), *arrivals, chunk(OTHER, ITINERARIES, 0), end(OTHER, ITINERARIES, 1)])
    assert told(service.ledger).state is State.FAILED
    assert told(service.ledger).reason == reason
    assert [each.job for each in service.ledger.computing()] == [OTHER]


def test_a_failed_job_is_told_on_each_query_and_takes_nothing_more() -> None:
    ledger = Ledger(Limits())
    ledger.apply([chunk(JOB, ITINERARIES, 0, fault="no"), chunk(JOB, ITINERARIES, 1), *airports(JOB)], ENDS)
    reason = "itineraries: message 0: no"
    assert ledger.endings() == [(JOB, ResultEnd(query, None, reason)) for query in ("q1", "q2", "q3", "q4")]
    assert ledger.paths() == set()
    assert ledger.airports_ready() == []
    ledger.fail(JOB, "again")
    assert told(ledger).reason == reason
    assert ledger.endings() == []


def test_a_record_of_no_job_is_counted_and_disturbs_nobody() -> None:
    ledger = Ledger(Limits())
    ledger.apply(
        [
            Arrival(ITINERARIES, 0, b"not a uuid", chunk_headers(0)),  # type: ignore[arg-type]
            Arrival(ITINERARIES, 0, None, []),
            Arrival(REQUESTS, 0, JOB.encode(), [], value=b"{}"),
            request(JOB, Request.DELETE),
        ],
        ENDS,
    )
    assert ledger.refused == 3
    assert ledger.changed() == []


def test_what_others_wrote_among_the_states_is_left_out() -> None:
    ledger = Ledger(Limits())
    ledger.apply([chunk(JOB, ITINERARIES, 0)], ENDS)
    ((_, value),) = ledger.changed()
    assert value is not None
    others = [b"", b"{}", b"\xff", Job(OTHER).to_json(), Job(OTHER).to_json({"airports": 1})]
    loaded = Ledger.load([*others, value], Limits())
    assert loaded.refused == len(others)
    assert told(loaded) == told(ledger)


def test_results_of_a_new_job_are_after_what_is_there() -> None:
    ledger = Ledger(Limits())
    ledger.apply([request(JOB, Request.CREATE, at=5)], {results_partition(JOB): 42})
    job = told(ledger)
    assert (job.results_partition, job.results_offset) == (results_partition(JOB), 42)
    assert (job.created_ms, job.state) == (5, State.RECEIVING)
    ledger.apply([request(JOB, Request.CREATE, at=6)], {results_partition(JOB): 99})
    assert told(ledger).results_offset == 42


def test_a_deleted_job_is_gone_and_stays_so() -> None:
    ledger = Ledger(Limits())
    ledger.apply([chunk(JOB, ITINERARIES, 0), request(JOB, Request.DELETE)], ENDS)
    assert told(ledger).state is State.DELETED
    assert ledger.paths() == set()
    assert {each for _, each in ledger.endings()} == {
        ResultEnd(query, None, DELETED) for query in ("q1", "q2", "q3", "q4")
    }
    ledger.apply([request(JOB, Request.CREATE), *airports(JOB), request(JOB, Request.DELETE)], ENDS)
    assert told(ledger).state is State.DELETED
    assert ledger.endings() == []


def test_quotas_of_a_job_of_all_and_of_their_number() -> None:
    ledger = Ledger(Limits(job_bytes=2 * LENGTH, total_bytes=3 * LENGTH, jobs=2))
    ledger.apply([chunk(JOB, ITINERARIES, number) for number in range(3)], ENDS)
    assert told(ledger).reason == "itineraries: the job has more than the 200 bytes that it may have"
    third, fourth, fifth = (str(UUID(int=number)) for number in (3, 4, 5))
    ledger.apply([chunk(third, ITINERARIES, number) for number in range(2)], ENDS)
    ledger.apply([chunk(fourth, ITINERARIES, number) for number in range(2)], ENDS)
    assert told(ledger, third).state is State.RECEIVING
    assert told(ledger, fourth).reason == (
        "itineraries: all jobs together have more than the 300 bytes that they may have"
    )
    ledger.apply([request(fifth, Request.CREATE), request(OTHER, Request.CREATE)], ENDS)
    assert told(ledger, fifth).state is State.RECEIVING
    assert told(ledger, OTHER).reason == "there are 2 jobs already: try later"


def test_what_all_have_together_is_what_jobs_under_way_have() -> None:
    limits = Limits(total_bytes=3 * LENGTH)
    ledger = Ledger(limits)
    ledger.apply([chunk(JOB, ITINERARIES, number) for number in range(2)], ENDS)
    ledger = reloaded(ledger, limits)
    ledger.apply([chunk(OTHER, ITINERARIES, number) for number in range(2)], ENDS)
    assert told(ledger, OTHER).state is State.FAILED
    ledger.apply([request(JOB, Request.DELETE), request(OTHER, Request.DELETE)], ENDS)
    ledger = reloaded(ledger, limits)
    third = str(UUID(int=3))
    ledger.apply([chunk(third, ITINERARIES, number) for number in range(3)], ENDS)
    assert told(ledger, third).state is State.RECEIVING
    ledger.apply([chunk(third, ITINERARIES, 3)], ENDS)
    assert told(ledger, third).state is State.FAILED


def test_time_takes_what_is_abandoned_and_what_is_done() -> None:
    limits = Limits(keep_ms=HOUR, abandon_ms=2 * HOUR)
    ledger = Ledger(limits)
    ledger.apply([chunk(JOB, ITINERARIES, 0, at=10)], ENDS)
    assert ledger.due(10 + 2 * HOUR - 1) == []
    assert ledger.due(10 + 2 * HOUR) == [JOB]
    # A message came after all, before the request did.
    at = 10 + 2 * HOUR
    ledger.apply([chunk(JOB, ITINERARIES, 1, at=at), request(JOB, Request.EXPIRE, at=at + 1)], ENDS)
    assert told(ledger).state is State.RECEIVING
    ledger.apply([request(JOB, Request.EXPIRE, at=at + 2 * HOUR)], ENDS)
    assert told(ledger).reason == "abandoned: no message came for 7200 s"
    done = at + 2 * HOUR
    assert ledger.due(done + HOUR) == [JOB]
    ledger.apply([request(JOB, Request.EXPIRE, at=done + HOUR)], ENDS)
    assert told(ledger).expired
    assert ledger.due(done + HOUR) == []
    ledger = reloaded(ledger, limits)
    assert ledger.due(done + FORGET_MS) == [JOB]
    ledger.apply([request(JOB, Request.EXPIRE, at=done + FORGET_MS)], ENDS)
    assert ledger.changed() == [(JOB, None)]


def test_a_job_whose_files_are_lost_fails_and_others_do_not() -> None:
    ledger = Ledger(Limits())
    ledger.apply([chunk(JOB, ITINERARIES, 0), chunk(OTHER, ITINERARIES, 0)], ENDS)
    ledger.lose([f"{ITINERARIES}-{OTHER}"])
    assert told(ledger).reason == LOST
    assert told(ledger, OTHER).state is State.RECEIVING


def test_what_is_kept_of_a_long_file_is_small() -> None:
    """It has to fit into one message of the log."""
    ledger = Ledger(Limits())
    for batch in range(20):
        arrivals = [chunk(JOB, ITINERARIES, batch * 500 + number) for number in range(500)]
        ledger.apply(arrivals, ENDS)
    ((_, value),) = ledger.changed()
    assert value is not None
    assert len(value) < 2_000
