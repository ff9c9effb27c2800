"""What OpenAPI says about the topic queue's endpoints, which read and write their JSON themselves."""

from __future__ import annotations

from typing import Any, Final

from penstock.gateway.queue.parameters import ID_MAX
from penstock.gateway.queue.positions import REQUEST_ID_LENGTH_MAX

Schema = dict[str, Any]

TOPIC: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 249,
    "pattern": "^[a-zA-Z0-9._-]+$",
    "description": "A topic's name, by Kafka's rules. Names that begin with `__` are reserved.",
    "examples": ["orders"],
}
IDENTITY: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": ID_MAX}
OFFSET: Final[Schema] = {"type": "integer", "minimum": 0}
AT_MOST: Final[Schema] = {
    "type": "integer",
    "minimum": 1,
    "maximum": ID_MAX,
    "description": "Count no further than this: 1 asks only whether there is a message.",
}
REQUEST_ID: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": REQUEST_ID_LENGTH_MAX,
    "description": "Chosen by the client, unique for its producer or consumer. A request that is repeated "
    "because its answer got lost has the same effect and the same answer as the first one.",
}
MESSAGE: Final[Schema] = {"type": "string", "description": "The message."}
SUCCESS: Final[Schema] = {"const": "success"}
FAILURE: Final[Schema] = {
    "type": "object",
    "required": ["status", "message"],
    "properties": {"status": {"const": "failure"}, "message": {"type": "string"}},
}

MEANINGS: Final = {
    400: "Wrong or missing fields",
    401: "No token, where tokens are asked for",
    403: "The id is registered for another topic, or the token does not allow it",
    404: "There is no such id, or its topic was deleted",
    409: "There is such a topic already",
    410: "The request was answered before, and its message has been deleted since",
    413: "Too large",
    429: "Too many requests",
    502: "A broker refused",
    503: "No broker answered in time",
}
ALWAYS: Final = (400, 401, 403, 413, 429, 502, 503)


def answer(description: str, **properties: Schema) -> Schema:
    schema = {
        "type": "object",
        "required": ["status"],
        "properties": {"status": SUCCESS, **properties},
    }
    schema["required"] = ["status", *(name for name in properties if name != "encoding")]
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def responses(success: Schema, *failures: int, status: int = 200) -> dict[int | str, Schema]:
    """One success, and those failures beside the ones that every endpoint may have."""
    failed = {"application/json": {"schema": FAILURE}}
    documented: dict[int | str, Schema] = {status: success}
    for code in sorted({*ALWAYS, *failures}):
        documented[code] = {"description": MEANINGS[code], "content": failed}
    return documented


def json_body(*optional: str, **properties: Schema) -> Schema:
    required = [name for name in properties if name not in optional]
    schema = {"type": "object", "required": required, "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def query(*optional: str, **parameters: Schema) -> Schema:
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name not in optional, "schema": schema}
            for name, schema in parameters.items()
        ]
    }
