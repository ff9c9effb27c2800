"""Answers of the endpoints about topics, groups and the cluster."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from penstock.gateway.errors import JSON


def json_answer(content: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type=JSON)


def done(message: str) -> Response:
    return json_answer({"status": "success", "message": message})
