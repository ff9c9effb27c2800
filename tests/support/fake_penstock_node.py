"""A node that only looks like one from outside: for tests of the supervisor, which sees no more of a node.

    python -m tests.support.fake_penstock_node --config node.toml

It takes its port, serves `/v1/cluster` and `/v1/cluster/log` as a node would, writes `node.json`, prints the
ready line, and stops cleanly on SIGTERM. Beside its file, `refuse` keeps it from starting, and `silent` from
ever being ready. Each start adds a line to `starts`, each clean stop one to `stops`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from penstock.broker import node_status
from penstock.broker.http import HttpServer, Request, Response, json_response
from penstock.listening import bind


def note(file: Path) -> None:
    with file.open("a") as lines:
        lines.write(f"{time.monotonic_ns()}\n")


def status(settings: dict[str, Any]) -> dict[str, Any]:
    voters = [entry.partition("@") for entry in settings["controllers"]]
    return {
        "cluster_id": settings["cluster_id"],
        "controller": int(voters[0][0]),
        "brokers": [
            {
                "id": int(number),
                "host": "127.0.0.1",
                "port": int(address.rpartition(":")[2]),
                "state": "running",
            }
            for number, _, address in voters
            if int(number) < 1_000
        ],
        "topics": [],
    }


def answer(request: Request, settings: dict[str, Any]) -> Response:
    if request.path == "/v1/cluster/log":
        event = {
            "offset": 7,
            "timestamp_ms": 0,
            "kind": "controller_elected",
            "text": "a controller",
            "nodes": [1],
        }
        return json_response({"events": [event]})
    return json_response(status(settings))


async def serve(settings: dict[str, Any], folder: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    host, _, port = settings["listeners"].rpartition(":")
    listening = bind(host, int(port))
    endpoint = bind(host, 0)
    server = HttpServer(lambda request: answer(request, settings))
    http = f"http://{host}:{endpoint.getsockname()[1]}"
    await server.listen(endpoint)
    if not (folder / "silent").exists():
        node_status.write(
            settings["data"], node_id=settings["id"], kafka=settings["listeners"], http=http, started_at_ms=0
        )
        print(f"ready kafka={settings['listeners']} http={http}", flush=True)
    await stop.wait()
    await server.close()
    listening.close()


def main() -> None:
    path = Path(sys.argv[sys.argv.index("--config") + 1])
    settings = tomllib.loads(path.read_text())
    note(path.parent / "starts")
    if (path.parent / "refuse").exists():
        sys.exit("penstock: " + (path.parent / "refuse").read_text().strip())
    try:
        asyncio.run(serve(settings, path.parent))
    except OSError as error:
        sys.exit(f"penstock: {error.strerror}")
    node_status.remove(settings["data"])
    note(path.parent / "stops")
    print(json.dumps({"stopped": settings["id"]}), flush=True)


if __name__ == "__main__":
    main()
