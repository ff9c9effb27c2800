"""`penstock cluster log` and `penstock cluster trace`: what happened, for people and for programs."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import typer

from penstock.cli.cluster_endpoint import NoEndpoint, ask
from penstock.cli.options import HTTP, Http, Json
from penstock.cli.shiviz import trace_lines

LOG = "/v1/cluster/log"
FOLLOW_SECONDS = 0.5


def show_log(
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what happens, until Ctrl-C.")] = False,
    endpoint: Http = HTTP,
    json: Json = False,
) -> None:
    """Show elections, in-sync changes, restarts and their causes, oldest first."""
    try:
        for event in followed(endpoint) if follow else ask(endpoint, LOG)["events"]:
            print(json_module.dumps(event, ensure_ascii=False) if json else line_of(event), flush=True)
    except KeyboardInterrupt:  # the way to end it
        return


def followed(endpoint: str) -> Iterator[dict[str, Any]]:
    """Events without end. An endpoint that goes away is waited for: its successor is on its way."""
    last: dict[str | None, int] = {}
    answer = ask(endpoint, LOG)
    while True:
        for event in answer["events"]:
            if event["offset"] >= last.get(event.get("source"), 0):
                yield event
        for event in answer["events"]:
            last[event.get("source")] = event["offset"] + 1
        time.sleep(FOLLOW_SECONDS)
        after = answer.get("after")  # a supervisor says where to go on; a node tells all it knows
        with suppress(NoEndpoint):
            answer = ask(endpoint, f"{LOG}/{after}" if after else LOG)


def line_of(event: dict[str, Any]) -> str:
    # In the zone of whoever reads it.
    when = datetime.fromtimestamp(event["timestamp_ms"] / 1_000).astimezone()
    cause = f" ({event['cause']})" if event.get("cause") else ""
    return f"{when:%Y-%m-%d %H:%M:%S}.{event['timestamp_ms'] % 1_000:03d}  {event['text']}{cause}"


def trace(
    shiviz: Annotated[bool, typer.Option("--shiviz", help="In the format that ShiViz reads.")] = False,
    endpoint: Http = HTTP,
) -> None:
    """Write the cluster log with vector clocks, for ShiViz to draw.

    \b
    Give ShiViz this regular expression:
    (?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)
    """
    if not shiviz:
        raise typer.BadParameter(
            "--shiviz is the format to ask for; there is no other", param_hint="--shiviz"
        )
    for line in trace_lines(ask(endpoint, LOG)["events"]):
        print(line)
