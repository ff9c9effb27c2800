"""What OpenAPI says about the endpoints of Flights jobs."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

from fastapi import Path

from penstock.flights.chunks import CHUNK_BYTES_MAX
from penstock.flights.jobs import FILES, QUERIES, State
from penstock.flights.records import MESSAGES_MAX, FastestOf
from penstock.gateway.routes import documentation as doc

MILLISECONDS: Final[doc.Schema] = {**doc.NUMBER, "description": "milliseconds since 1970"}
JOB: Final[doc.Schema] = {"type": "string", "format": "uuid"}
JobName = Annotated[str, Path(json_schema_extra=JOB)]
FileName = Annotated[str, Path(json_schema_extra={"enum": list(FILES)})]
QueryName = Annotated[str, Path(json_schema_extra={"enum": list(QUERIES)})]

READING: Final[doc.Schema] = {
    "enum": list(get_args(FastestOf)),
    "description": "query 3: of flights with three or more stopovers, or of all on routes that have one",
}
NEW_JOB: Final = doc.thing(
    "job",
    "fastest_of",
    job={**JOB, "description": "an id of your own; the same again goes on with the same job"},
    fastest_of=READING,
)
OPTIONAL_BODY: Final[doc.Schema] = {
    "requestBody": {"required": False, "content": {"application/json": {"schema": NEW_JOB}}}
}
CREATED: Final = doc.thing(job=JOB)
NEXT: Final[doc.Schema] = {**doc.NUMBER, "description": "the number of the message that is wanted next"}
TAKEN: Final = doc.thing(
    "duplicate", next=NEXT, duplicate={**doc.FLAG, "description": "it was there before, and counts once"}
)
END: Final = doc.thing(messages={"type": "integer", "minimum": 1, "maximum": MESSAGES_MAX})
FILE: Final = doc.thing(
    next=NEXT,
    received={**doc.NUMBER, "description": "messages that the service has"},
    messages={**doc.NUMBER_OR_NULL, "description": "how many there are, once the end was told"},
    bytes={**doc.NUMBER, "description": "that the service has"},
    duplicates=doc.NUMBER,
)
QUERY: Final = doc.thing(state={"enum": ["later", "partial", "complete"]}, rows=doc.NUMBER)
STATUS: Final = doc.thing(
    "service",
    job=JOB,
    state={"enum": [state.value for state in State if state is not State.DELETED]},
    reason={**doc.TEXT_OR_NULL, "description": "why it failed"},
    created_ms=MILLISECONDS,
    updated_ms=MILLISECONDS,
    files=doc.thing(**dict.fromkeys(FILES, FILE)),
    queries=doc.thing(**dict.fromkeys(QUERIES, QUERY)),
    rows_read=doc.NUMBER,
    rows_rejected=doc.NUMBER,
    results_partition=doc.NUMBER,
    results_offset=doc.NUMBER,
    fastest_of=READING,
    summary={"type": ["object", "null"], "description": "as summary.json, when it is complete"},
    expired={**doc.FLAG, "description": "what the service had staged of it is removed"},
    service={
        "type": "string",
        "description": "how the service is: running, starting, late, down or not started",
    },
)
LIST: Final = doc.thing(jobs=doc.several(STATUS), service=doc.TEXT)
DELETED: Final = doc.thing(job=JOB, state={"const": State.DELETED.value})
ROWS: Final[doc.Schema] = {"type": "string", "description": "One row a line."}
CHUNK_BODY: Final[doc.Schema] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/csv": {
                "schema": {
                    "type": "string",
                    "maxLength": CHUNK_BYTES_MAX,
                    "description": "Whole lines; message 0 begins with the header line.",
                }
            }
        },
    }
}
MESSAGE: Final[doc.Schema] = {
    "name": "message",
    "in": "query",
    "required": True,
    "schema": {"type": "integer", "minimum": 0, "maximum": MESSAGES_MAX - 1},
}

MEANINGS: Final = {
    404: "There is no such job, file or query",
    409: "Another message is next (`next` says which), the file has ended, or the job has failed",
    410: "The job was deleted",
    413: "The chunk, or the job, would be too large",
    429: "The service has not taken yet what was sent before, or the jobs are too many or too large: "
    "`Retry-After` says when to try again",
}


def responses(
    description: str, schema: doc.Schema, *failures: int, **options: Any
) -> dict[int | str, doc.Schema]:
    documented = doc.responses(description, schema, **options)
    failed = documented[400]["content"]
    for code in (*failures, *(each for each in (413, 429) if each in documented)):
        documented[code] = {"description": MEANINGS[code], "content": failed}
    return documented
