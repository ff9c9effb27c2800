"""`/v1/flights/jobs`: files in, the state of jobs and the rows of their answers out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.flights.jobs import QUERIES, State
from penstock.flights.records import (
    FASTEST_OF,
    MANY_STOPOVERS,
    MESSAGES_MAX,
    FastestOf,
    RecordError,
)
from penstock.flights.records import Request as JobRequest
from penstock.flights.records import fastest_of as parse_fastest
from penstock.gateway.errors import JSON, ApiFailure
from penstock.gateway.flights import documentation as shapes
from penstock.gateway.flights.admission import refuse_job
from penstock.gateway.flights.chunk_requests import file_name, job_id, take_chunk, taken_fields
from penstock.gateway.flights.heartbeats import clock_ms
from penstock.gateway.flights.reading import ResultsReader
from penstock.gateway.flights.result_stream import MEDIA_TYPES, NDJSON, ResultStream
from penstock.gateway.flights.state import flights_of
from penstock.gateway.flights.uploading import no_job
from penstock.gateway.queue.hot_paths import ClientGoneError
from penstock.gateway.queue.parameters import parse_fields
from penstock.gateway.routes import documentation as doc
from penstock.gateway.routes.answers import json_answer
from penstock.gateway.state import gateway_of
from penstock.gateway.streams.start import parse_number
from penstock.gateway.streams.state import streams_of

if TYPE_CHECKING:
    from penstock.flights.jobs import Job
    from penstock.gateway.flights.state import Flights

router = APIRouter(prefix="/v1/flights/jobs", tags=["flights"])

LISTED: Final = 100
LISTED_MAX: Final = 1_000
FOLLOW: Final = {None: True, "1": True, "0": False}


@router.post(
    "",
    summary="Ask for a job",
    description="Without a body the id is new. With an id of a job that is there, the answer is the same "
    "again, for a client that goes on after a break.",
    responses=shapes.responses("It is there", shapes.CREATED, 409),
    openapi_extra=shapes.OPTIONAL_BODY,
)
async def create(request: Request) -> Response:
    body = await request.body()
    fields = parse_fields(body) if body else {}
    asked, reading = fields.get("job"), fields.get(FASTEST_OF)
    fastest_of = MANY_STOPOVERS if reading is None else parse_reading(reading)
    job = job_id(asked) if asked is not None else str(uuid4())
    flights = flights_of(request)
    known = await flights.find(job)
    if known is None:
        await ask_for(flights, job, fastest_of)
    elif known.state is State.DELETED:
        raise ApiFailure(409, f"the job {job} was deleted: take another id", state=known.state)
    elif known.state is State.FAILED:
        raise ApiFailure(409, f"the job {job} has failed: {known.reason}", state=known.state)
    elif reading is not None and known.fastest_of != fastest_of:
        raise ApiFailure(
            409,
            f"the job {job} is about the fastest of {known.fastest_of}: take another id",
            state=known.state,
        )
    return json_answer({"job": job})


def parse_reading(text: object) -> FastestOf:
    try:
        return parse_fastest(text)
    except RecordError as error:
        raise ApiFailure(400, str(error)) from None


async def ask_for(flights: Flights, job: str, fastest_of: FastestOf) -> None:
    pulse = await flights.heartbeats.known()
    refusal = refuse_job(flights.view.open_jobs, pulse.quotas, flights.bounds)
    if refusal is not None:
        flights.metrics.refused(refusal.reason)
        raise ApiFailure(refusal.status, refusal.message, headers={"retry-after": str(refusal.retry_s)})
    await flights.writer.request(job, JobRequest.CREATE, fastest_of)
    flights.view.wanted(job, clock_ms(), fastest_of)


@router.get(
    "",
    summary="Jobs, the newest first",
    responses=shapes.responses("The jobs", shapes.LIST),
    openapi_extra=doc.query(
        limit={"type": "integer", "minimum": 1, "maximum": LISTED_MAX, "default": LISTED}
    ),
)
async def list_jobs(request: Request) -> Response:
    text = request.query_params.get("limit")
    limit = max(1, parse_number(text, "limit", LISTED_MAX)) if text else LISTED
    flights = flights_of(request)
    await flights.known()
    await flights.heartbeats.known()
    jobs = [status_of(flights, job) for job in flights.view.newest(limit)]
    return json_answer({"jobs": jobs, "service": flights.heartbeats.state()})


@router.get(
    "/{job}",
    summary="State and progress of a job, and which message of each file is next",
    responses=shapes.responses("The job", shapes.STATUS, 404, 410),
)
async def status(request: Request, job: shapes.JobName) -> Response:
    flights = flights_of(request)
    known = await require(flights, job)
    await flights.heartbeats.known()
    return json_answer({**status_of(flights, known), "service": flights.heartbeats.state()})


@router.delete(
    "/{job}",
    summary="Delete a job, in whatever state it is",
    responses=shapes.responses("It is gone", shapes.DELETED, 404),
)
async def delete(request: Request, job: shapes.JobName) -> Response:
    flights, job = flights_of(request), job_id(job)
    known = await flights.find(job)
    if known is None:
        raise no_job(job, None)
    if known.state is not State.DELETED:
        await flights.writer.request(job, JobRequest.DELETE)
        flights.deleted(job)
    return json_answer({"job": job, "state": State.DELETED})


@router.put(
    "/{job}/{file}",
    summary="Send message K of a file: whole lines of CSV",
    description="K counts 0, 1, 2, …; only message 0 has the header line. A message that is repeated counts "
    "once; one that would leave a gap is refused with 409, and `next` says which is wanted.",
    responses=shapes.responses("On all in-sync replicas", shapes.TAKEN, 404, 409, 410),
    openapi_extra={"parameters": [shapes.MESSAGE], **shapes.CHUNK_BODY},
)
async def put_chunk(request: Request, job: shapes.JobName, file: shapes.FileName) -> Response:
    try:
        body = await take_chunk(flights_of(request), request.scope, request.receive, job, file)
    except ClientGoneError:
        return Response(status_code=400)  # nobody hears it
    return Response(body, media_type=JSON)


@router.post(
    "/{job}/{file}/end",
    summary="Say how many messages a file has",
    description="That they all are there is checked, as far as this gateway knows: 409 and `next` otherwise.",
    responses=shapes.responses("It has ended", shapes.TAKEN, 404, 409, 410),
    openapi_extra=doc.json_body(shapes.END),
)
async def end_file(request: Request, job: shapes.JobName, file: shapes.FileName) -> Response:
    job, file = job_id(job), file_name(file)
    messages = parse_fields(await request.body()).get("messages")
    if type(messages) is not int or not 0 < messages <= MESSAGES_MAX:
        raise ApiFailure(400, f"'messages' must be a number from 1 to {MESSAGES_MAX}")
    flights = flights_of(request)
    await flights.find(job)
    taken = await flights.uploader.end(job, file, messages)
    return json_answer(taken_fields(taken))


@router.get(
    "/{job}/results/{query}",
    summary="The rows of an answer, as they come",
    description="Follows until the answer is complete, unless `follow=0`. If it does not come to its end, "
    'the last line of NDJSON is an object with the status "failure"; CSV then breaks off without the end of '
    "the body.",
    response_class=Response,
    responses=shapes.responses("The rows", shapes.ROWS, 404, 410, media_type="application/x-ndjson"),
    openapi_extra=doc.query(
        format={"enum": list(MEDIA_TYPES), "default": NDJSON}, follow={"enum": ["0", "1"], "default": "1"}
    ),
)
async def results(request: Request, job: shapes.JobName, query: shapes.QueryName) -> Response:
    form = request.query_params.get("format") or NDJSON
    follow = request.query_params.get("follow") or None
    if form not in MEDIA_TYPES:
        raise ApiFailure(400, f"format must be one of {', '.join(MEDIA_TYPES)}")
    if follow not in FOLLOW:
        raise ApiFailure(400, "follow must be 0 or 1")
    if query not in QUERIES:
        raise ApiFailure(404, f"there is no query {query!r:.20}; there are {', '.join(QUERIES)}")
    flights = flights_of(request)
    known = await require(flights, job)
    gateway = gateway_of(request)
    reader = ResultsReader(flights, gateway.kafka.reader, known.job, query, follow=FOLLOW[follow])
    return ResultStream(reader, query, form, streams_of(request), gateway.settings.limits)


async def require(flights: Flights, job: str) -> Job:
    job = job_id(job)
    known = await flights.find(job)
    if known is None or known.state is State.DELETED:
        raise no_job(job, known)
    return known


def status_of(flights: Flights, job: Job) -> dict[str, Any]:
    """What the service tells, and which message this gateway wants next, which may be further."""
    files = {}
    for name, told in job.files.items():
        upload = flights.uploads.look(job, name)
        files[name] = replace(told, next=upload.next, messages=upload.end)
    return replace(job, files=files).as_dict()
