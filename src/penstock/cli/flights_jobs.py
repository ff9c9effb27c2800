"""`penstock flights submit|jobs|status|results|delete`: the Flights service through a gateway."""

import os
import shlex
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.cluster_endpoint import TOKEN
from penstock.cli.options import HTTP, Http, Json
from penstock.cli.output import CommandFailed, discard_output, print_json, print_table

if TYPE_CHECKING:
    from penstock.cli.flights_results import Screen
    from penstock.flights import FlightsClient
    from penstock.flights.jobs import Job
    from penstock.flights.patience import Waiting
    from penstock.pipelines.flights.output import Summary

ANSWER_S_MAX = 5.0
"""For commands that ask one thing; who follows something waits as long as it takes."""


class Query(StrEnum):
    q1 = "q1"
    q2 = "q2"
    q3 = "q3"
    q4 = "q4"


class Form(StrEnum):
    csv = "csv"
    ndjson = "ndjson"


class FastestOfOption(StrEnum):
    many_stopovers = "many-stopovers"
    all = "all"


FASTEST_OF_OPTION = typer.Option(
    "--fastest-of",
    help="Which flights query 3 is about: those with three or more stopovers, or all of routes"
    " that have one.",
)


def register(group: typer.Typer) -> None:
    for command in (submit, jobs, status, results, delete):
        group.command()(command)


def check_job(value: str | None) -> str | None:
    from penstock.flights.records import RecordError, parse_job

    try:
        return None if value is None else parse_job(value)
    except RecordError as error:
        raise typer.BadParameter(str(error)) from None


JobId = Annotated[str, typer.Argument(metavar="JOB", callback=check_job, help="The UUID of the job.")]
Timeout = Annotated[
    float | None,
    typer.Option(min=0.1, metavar="S", help="Give up when nothing has succeeded for so long; else never."),
]


def submit(
    itineraries: Annotated[str, typer.Option(metavar="F", help="The itineraries, a CSV file.")],
    airports: Annotated[str, typer.Option(metavar="F", help="The airports, likewise.")],
    job: Annotated[
        str | None,
        typer.Option(
            metavar="UUID", callback=check_job, help="Go on with this job, or give a new one this id."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Gets q1.csv to q4.csv and summary.json.")
    ] = None,
    fastest_of: Annotated[FastestOfOption | None, FASTEST_OF_OPTION] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Stay for the results, or only upload.")
    ] = True,
    http: Http = HTTP,
    timeout: Timeout = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Upload two files to the Flights service; results are printed as they arrive."""
    from penstock.cli.flights import ended_by_sigterm
    from penstock.cli.flights_results import screen

    if not wait and (out is not None or json):
        raise typer.BadParameter("there are no results to write or print with --no-wait")
    paths = {"airports": airports, "itineraries": itineraries}
    total_bytes = checked_bytes(paths, out)
    is_new, job = job is None, job or str(uuid.uuid4())
    again = resuming(job, paths, out, http)
    try:
        with ended_by_sigterm(), screen(total_bytes, wait and not json) as view:
            view.say(f"job {job}")
            with failures_as_lines(again), client_at(http, timeout, view.waiting) as client:
                if is_new:
                    client.create(job, fastest_of=(fastest_of or FastestOfOption.many_stopovers).value)
                summary = upload_and_answer(client, job, paths, view, out, wait, fastest_of)
    except KeyboardInterrupt:
        raise CommandFailed(f"interrupted; to go on: {again}") from None
    if summary is None:
        print(job)
    elif json:
        print_json(asdict(summary))
    elif out is not None:
        print(f"results in {out}, {summary.seconds:.1f} s")


def upload_and_answer(
    client: "FlightsClient",
    job: str,
    paths: dict[str, str],
    view: "Screen",
    out: str | None,
    wait: bool,
    fastest_of: FastestOfOption | None,
) -> "Summary | None":
    from penstock.cli.flights_submit import Submission

    submission = Submission(client, job, paths, view)
    state = submission.find_or_create(None if fastest_of is None else fastest_of.value)
    if wait:
        return submission.run(state, out)
    submission.upload(state)
    return None


def jobs(http: Http = HTTP, json: Json = False) -> None:
    """List the jobs, newest first."""
    with failures_as_lines(), client_at(http, ANSWER_S_MAX) as client:
        found = client.jobs()
    if json:
        print_json([job.as_dict() for job in found])
        return
    rows = [
        [
            job.job,
            job.state,
            time_of(job.created_ms),
            job.rows_read,
            *(None if query.state == "later" else query.rows for query in job.queries.values()),
            job.reason,
        ]
        for job in found
    ]
    print_table(["JOB", "STATE", "CREATED", "ROWS READ", "Q1", "Q2", "Q3", "Q4", "REASON"], rows)


def status(job: JobId, http: Http = HTTP, json: Json = False) -> None:
    """Show how far a job is."""
    with failures_as_lines(), client_at(http, ANSWER_S_MAX) as client:
        state, service = client.status(job), client.service()
    if json:
        print_json(state.as_dict() | {"service": service})
    else:
        show_status(state)
        print(f"\nthe service is {service}")


def show_status(state: "Job") -> None:
    print(f"job {state.job}: {state.state}" + (f", {state.reason}" if state.reason else ""))
    print(f"created {time_of(state.created_ms)}, updated {time_of(state.updated_ms)}")
    print(f"{state.rows_read:,} rows read, {state.rows_rejected:,} rejected")
    print()
    print_table(
        ["FILE", "NEXT", "MESSAGES", "BYTES", "DUPLICATES"],
        [[name, file.next, file.messages, file.bytes, file.duplicates] for name, file in state.files.items()],
    )
    print()
    print_table(
        ["QUERY", "STATE", "ROWS"], [[name, query.state, query.rows] for name, query in state.queries.items()]
    )


def results(
    job: JobId,
    query: Annotated[Query, typer.Argument(metavar="q1|q2|q3|q4", help="The query.")],
    format: Annotated[Form, typer.Option(help="How rows are written.")] = Form.csv,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for rows until there are no more.")
    ] = True,
    http: Http = HTTP,
    timeout: Timeout = None,
) -> None:
    """Write the rows of a query to stdout."""
    from penstock.cli.flights_results import Screen

    limit_s = timeout if follow or timeout is not None else ANSWER_S_MAX
    view = Screen(None, sys.stdout, 0, results=False)
    with failures_as_lines(), client_at(http, limit_s, view.waiting) as client:
        for block in client.result_lines(job, query.value, format.value, follow=follow):
            try:
                sys.stdout.buffer.write(block)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                discard_output()  # whoever read has seen enough
                return


def delete(job: JobId, http: Http = HTTP) -> None:
    """Delete a job, with its data and its results."""
    with failures_as_lines(), client_at(http, ANSWER_S_MAX) as client:
        client.delete(job)
    print(f"deleted {job}")


def checked_bytes(paths: dict[str, str], out: str | None) -> int:
    """The size of both files, if they can be used and `out` can be written: nothing is sent otherwise."""
    from penstock.flights.errors import UploadError
    from penstock.flights.numbered_chunks import NumberedChunks
    from penstock.pipelines.flights.output import OutputError, check_replaceable

    total = 0
    try:
        for file, path in paths.items():
            with NumberedChunks(path, file) as chunks:
                total += chunks.size
        if out is not None:
            check_replaceable(out)
    except (UploadError, OutputError) as error:
        raise CommandFailed(str(error)) from error
    return total


def resuming(job: str, paths: dict[str, str], out: str | None, http: str) -> str:
    """The command that goes on with the job."""
    words = ["penstock", "flights", "submit", "--job", job]
    for file in ("itineraries", "airports"):
        words += [f"--{file}", paths[file]]
    words += ["--out", out] if out is not None else []
    words += ["--http", http] if http != HTTP else []
    return shlex.join(words)


@contextmanager
def client_at(
    http: str, timeout_s: float | None, waiting: "Waiting" = lambda _: None
) -> "Iterator[FlightsClient]":
    from penstock.flights import FlightsClient

    try:
        client = FlightsClient(http, token=os.environ.get(TOKEN), timeout_s=timeout_s, waiting=waiting)
    except ValueError as error:
        raise CommandFailed(f"--http: {error}") from error
    with client:
        yield client


@contextmanager
def failures_as_lines(again: str | None = None) -> Iterator[None]:
    """`again` is the command to go on with, after a failure that may pass."""
    from penstock.client.errors import DisconnectedServerError, NotAuthorizedError, PenstockError
    from penstock.pipelines.flights.output import OutputError

    try:
        yield
    except NotAuthorizedError as error:
        raise CommandFailed(f"{error}: set {TOKEN}") from error
    except DisconnectedServerError as error:
        raise CommandFailed(f"{error}; to go on: {again}" if again else str(error)) from error
    except (PenstockError, OutputError) as error:
        raise CommandFailed(str(error)) from error


def time_of(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="seconds")
