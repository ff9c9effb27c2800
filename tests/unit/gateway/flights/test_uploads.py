"""Which message is next, by a model, and what waits for the service."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.flights.jobs import FILES, FileProgress, Job, State
from penstock.gateway.flights.uploads import FileUpload, Uploads, Verdict

JOB = Job("11111111-1111-1111-1111-111111111111")


def with_file(job: Job, name: str, progress: FileProgress) -> Job:
    return replace(job, files={**job.files, name: progress})


def test_a_file_from_its_first_message_to_its_end() -> None:
    upload = FileUpload()
    assert upload.judge(1) is Verdict.GAP
    assert upload.judge(0) is Verdict.WRITE
    upload.written(0, 100)
    assert upload.judge(0) is Verdict.DUPLICATE
    assert upload.judge(1) is Verdict.WRITE
    assert (upload.judge_end(0), upload.judge_end(2)) == (Verdict.GAP, Verdict.GAP)
    assert upload.judge_end(1) is Verdict.WRITE
    upload.end = 1
    assert (upload.judge_end(1), upload.judge_end(2)) == (Verdict.DUPLICATE, Verdict.ENDED)
    assert (upload.judge(0), upload.judge(1)) == (Verdict.DUPLICATE, Verdict.ENDED)


def test_an_end_that_was_told_before_all_messages_are_there() -> None:
    upload = FileUpload()
    upload.told(FileProgress(next=2, received=2, messages=4, bytes=20))
    assert [upload.judge(message) for message in range(6)] == [
        Verdict.DUPLICATE, Verdict.DUPLICATE, Verdict.WRITE, Verdict.GAP, Verdict.ENDED, Verdict.ENDED,
    ]  # fmt: skip


def test_the_service_may_be_ahead_of_what_the_writer_was_told() -> None:
    upload = FileUpload()
    upload.told(FileProgress(next=1, received=1, bytes=10))
    upload.written(0, 10)
    assert (upload.next, upload.bytes, upload.behind) == (1, 10, 0)


def test_what_waits_for_the_service() -> None:
    uploads = Uploads()
    assert uploads.written(JOB, "itineraries", 0, 100) == 1
    assert uploads.written(JOB, "itineraries", 1, 50) == 2
    assert uploads.written(JOB, "airports", 0, 7) == 1
    assert (uploads.behind, uploads.behind_of(JOB.job), uploads.bytes_of(JOB)) == (157, 157, 157)
    told = with_file(JOB, "itineraries", FileProgress(1, 1, None, 100))
    uploads.told(told)
    assert (uploads.behind, uploads.bytes_of(told)) == (57, 157)
    uploads.told(replace(told, state=State.FAILED))
    assert (uploads.behind, uploads.behind_of(JOB.job), len(uploads)) == (0, 0, 0)


def test_jobs_that_are_done_are_not_remembered() -> None:
    done = with_file(
        replace(JOB, state=State.COMPLETE), "itineraries", FileProgress(3, 3, messages=3, bytes=30)
    )
    uploads = Uploads()
    assert uploads.file(done, "itineraries").judge(2) is Verdict.DUPLICATE
    assert uploads.file(done, "itineraries").judge(3) is Verdict.ENDED
    uploads.written(done, "itineraries", 3, 10)
    assert (len(uploads), uploads.behind) == (0, 0)


def test_after_the_topic_is_gone_a_file_begins_anew() -> None:
    uploads = Uploads()
    uploads.written(JOB, "itineraries", 0, 10)
    uploads.forget_all()
    assert uploads.behind == 0
    assert uploads.file(JOB, "itineraries").next == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "told", "forget"]),
        st.sampled_from(FILES),
        st.integers(0, 6),
        st.integers(1, 9),
    ),
    max_size=40,
)


@given(STEPS)
def test_messages_are_written_in_order_and_the_sums_hold(steps: list[tuple[str, str, int, int]]) -> None:
    """The service tells of any message that is on the log, and never of others."""
    uploads, job = Uploads(), JOB
    log: dict[str, list[tuple[int, int]]] = {name: [] for name in FILES}
    for what, name, number, size in steps:
        upload = uploads.file(job, name)
        if what == "put":
            if upload.judge(number) is Verdict.WRITE:
                log[name].append((number, size))
                assert uploads.written(job, name, number, size) == number + 1
            elif upload.judge(number) is Verdict.GAP:
                assert number > upload.next
        elif what == "told":
            there: dict[int, int] = {}
            for message, bytes_ in log[name][:number]:
                there.setdefault(message, bytes_)
            before = job.files[name]
            if len(there) >= before.next:
                job = with_file(job, name, FileProgress(len(there), len(there), None, sum(there.values())))
                uploads.told(job)
        else:
            uploads.forget(job.job)  # as a gateway that is started again
        numbers = [message for message, _ in log[name]]
        assert set(numbers) == set(range(len(set(numbers)))), "no message without those before it"
        assert uploads.file(job, name).next >= job.files[name].next
        assert uploads.behind == sum(uploads.file(job, each).behind for each in FILES)
        assert uploads.behind >= 0
