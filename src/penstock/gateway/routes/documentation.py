"""What OpenAPI says about these endpoints, which write their JSON themselves."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Path

from penstock.gateway.queue.documentation import FAILURE, TOPIC

Schema = dict[str, Any]

TopicName = Annotated[str, Path(json_schema_extra=TOPIC)]
TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
NUMBER_OR_NULL: Final[Schema] = {"type": ["integer", "null"]}
NUMBERS: Final[Schema] = {"type": "array", "items": NUMBER}
ANY_OBJECT: Final[Schema] = {"type": "object"}

MEANINGS: Final = {
    400: "Something in the request is wrong",
    401: "No token, where tokens are asked for",
    403: "The token does not allow it",
    404: "There is no such topic, partition or group",
    409: "There is such a topic already",
    413: "Too large",
    429: "Too many requests",
    502: "A broker refused",
    503: "Not available: no broker answered in time, or it is not a cluster that can do this",
}
ALWAYS: Final = (400, 401, 403, 413, 429, 502, 503)


def thing(*optional: str, **properties: Schema) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties}


def several(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def by_name(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def responses(
    description: str, schema: Schema, *failures: int, status: int = 200, media_type: str = "application/json"
) -> dict[int | str, Schema]:
    documented: dict[int | str, Schema] = {
        status: {"description": description, "content": {media_type: {"schema": schema}}}
    }
    failed = {"application/json": {"schema": FAILURE}}
    for code in sorted({*ALWAYS, *failures}):
        documented[code] = {"description": MEANINGS[code], "content": failed}
    return documented


def json_body(schema: Schema) -> Schema:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def query(**parameters: Schema) -> Schema:
    """All of them optional."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in parameters.items()
        ]
    }


MESSAGE: Final = thing(
    "key_base64",
    "value_base64",
    "headers",
    topic=TEXT,
    partition=NUMBER,
    offset=NUMBER,
    timestamp={**NUMBER, "description": "milliseconds since 1970"},
    key={**TEXT_OR_NULL, "description": "null also where it is not UTF-8: then key_base64 has it"},
    value={**TEXT_OR_NULL, "description": "null also where it is not UTF-8: then value_base64 has it"},
    key_base64=TEXT,
    value_base64=TEXT,
    headers=several(thing("value_base64", name=TEXT, value=TEXT_OR_NULL, value_base64=TEXT)),
)
PARTITION: Final = thing(
    "start",
    "end",
    partition=NUMBER,
    leader=NUMBER_OR_NULL,
    replicas=NUMBERS,
    isr=NUMBERS,
    start={**NUMBER_OR_NULL, "description": "the first offset; null while there is no leader"},
    end={**NUMBER_OR_NULL, "description": "the offset after the last"},
)
SETTING: Final = thing(value=TEXT_OR_NULL, source=TEXT, read_only=FLAG, sensitive=FLAG)
TOPIC_DETAILS: Final = thing(name=TEXT, partitions=several(PARTITION), config=by_name(SETTING))
CHANGES: Final = by_name({"type": ["string", "number", "boolean", "null"]})
GROUP_PARTITION: Final = thing(
    topic=TEXT, partition=NUMBER, committed=NUMBER_OR_NULL, end=NUMBER_OR_NULL, lag=NUMBER_OR_NULL,
    member=TEXT_OR_NULL,
)  # fmt: skip
GROUP: Final = thing(
    group=TEXT,
    state=TEXT,
    assignor=TEXT_OR_NULL,
    members=several(ANY_OBJECT),
    lag={**NUMBER, "description": "of all partitions together, where it is known"},
    partitions=several(GROUP_PARTITION),
)
CLUSTER: Final = thing(
    "nodes",
    cluster_id=TEXT_OR_NULL,
    controller=NUMBER_OR_NULL,
    brokers=several(ANY_OBJECT),
    topics=several(ANY_OBJECT),
    nodes=several(ANY_OBJECT),
)
DONE: Final = thing(status={"const": "success"}, message=TEXT)
