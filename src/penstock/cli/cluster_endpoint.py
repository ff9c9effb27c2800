"""Asking the admin endpoint of a node or of a supervisor."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any

from penstock.cli.output import CommandFailed

HTTP_SECONDS_MAX = 3.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
TOKEN = "PENSTOCK_TOKEN"  # noqa: S105 - the name of a variable
"""In the environment: what a gateway with tokens asks for."""
ALIVE = ("running", "fenced")
"""States of a broker that answers."""


class NoEndpoint(CommandFailed):
    """Nothing answers there, or not as an admin endpoint would."""


def ask(endpoint: str, path: str) -> dict[str, Any]:
    """The JSON object behind `path`; CommandFailed says why there is none."""
    if not endpoint.startswith(("http://", "https://")):
        raise CommandFailed(f"--http: {endpoint!r} is not an address of the form http://HOST:PORT")
    token = os.environ.get(TOKEN)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(endpoint.rstrip("/") + path, headers=headers)  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(request, timeout=HTTP_SECONDS_MAX) as response:  # noqa: S310 - likewise
            told = json.loads(response.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise CommandFailed(f"{endpoint} wants a token: set {TOKEN}") from error
            raise NoEndpoint(f"{endpoint} does not know {path}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise NoEndpoint(
            f"no admin endpoint at {endpoint}: {getattr(reason, 'strerror', None) or reason}"
        ) from error
    except ValueError as error:
        raise NoEndpoint(f"what listens at {endpoint} is not an admin endpoint") from error
    if not isinstance(told, dict):
        raise NoEndpoint(f"what listens at {endpoint} is not an admin endpoint")
    return told


def ask_if_there(endpoint: str) -> dict[str, Any]:
    """The state of the cluster as the endpoint tells it; nothing if there is no endpoint."""
    try:
        return ask(endpoint, "/v1/cluster")
    except NoEndpoint:
        return {}
