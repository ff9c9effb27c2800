"""A part of the demo that only looks like one; see fake_demo.py.

    python -m tests.support.fake_demo_part ROLE FOLDER HTTP_PORT RESULTS FAULT

Next to nothing of Penstock is imported: a demo has six of these, and that would be most of what they cost.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from penstock.pipelines.stop import new_stop

TICK_S = 0.05
SENT_PER_TICK = 100
NO_FAULT = "none"
LOG_REPEATS, MAP_LOSES = "log-repeats", "map-loses"
FAULTS = (NO_FAULT, LOG_REPEATS, MAP_LOSES)
COOKIE = "penstock_viewer=me"


def read_count(path: Path) -> int:
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return 0


class Part:
    def __init__(self, role: str, folder: str, http_port: str, results: str, fault: str) -> None:
        self.fault = fault
        self.folder = Path(folder)
        self.http_port = int(http_port)
        self.results = Path(results)
        (self.folder / f"{role}.pid").write_text(str(os.getpid()))
        with new_stop() as self.done:
            signal.signal(signal.SIGTERM, lambda *_: self.done.set())
            getattr(self, role.replace("-", "_"))()

    def read(self, name: str) -> int:
        return read_count(self.folder / name)

    def write(self, name: str, value: int) -> None:
        aside = self.folder / f"{name}.{os.getpid()}"
        aside.write_text(str(value))
        aside.replace(self.folder / name)

    def cluster(self) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", self.http_port), answering(self))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"ready kafka=127.0.0.1:1 http=http://127.0.0.1:{self.http_port}", flush=True)
        self.done.wait(None)

    def cars(self) -> None:
        before = sent = self.read("sent")
        log = self.read("log")
        while not self.done.wait(TICK_S):
            sent += SENT_PER_TICK
            log += SENT_PER_TICK + (self.fault == LOG_REPEATS)
            self.write("sent", sent)
            self.write("repeated", max(0, log - sent))
            self.write("log", log)
            print(f"sent {sent - before:,} ({SENT_PER_TICK / TICK_S:,.0f} per second)", flush=True)
        print(json.dumps({"sent": sent - before, "good": sent - before}), flush=True)

    def heatmap(self) -> None:
        """With a Java, which does not end by itself when it has lost its Python."""
        subprocess.Popen(["sleep", "600"])
        print("ready heatmap checkpoint=nowhere", flush=True)
        while not self.done.wait(TICK_S):
            log = self.read("log")
            self.write("counted", log - (self.fault == MAP_LOSES and log > 0))

    def flights_data(self) -> None:
        print("wrote it")

    def flights_service(self) -> None:
        print("ready flights data=nowhere", flush=True)
        self.done.wait(None)

    def flights(self) -> None:
        self.results.mkdir(parents=True)
        queries = {"q1": 1, "q2": 2, "q3": 3, "q4": 4}
        told = {"rows_read": 20_000, "queries": queries, "average_fare": 12.5, "seconds": 0.1}
        (self.results / "summary.json").write_text(json.dumps(told))

    def refuse(self) -> None:
        print("penstock: there is no such thing here", file=sys.stderr)
        sys.exit(1)


def answering(part: Part) -> type[BaseHTTPRequestHandler]:
    brokers = [{"id": number, "state": "running"} for number in (1, 2, 3)]
    topics = [{"name": "traffic.r0.c0", "partitions": [{"partition": 0, "leader": 2}]}]

    def heat() -> dict[str, Any]:
        counted = part.read("counted")
        others = {"late": 0, "duplicate": 0, "malformed": 0}
        totals = {"sent": counted, "counted": counted, **others} if counted else None
        cells = [{"row": 0, "col": 0, "count": counted}] if counted else []
        newest = (part.folder / "sent").stat().st_mtime_ns // 1_000_000 if counted else None
        return {"cells": cells, "newest": newest, "totals": totals}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/v1/cluster/log"):
                self.answer({"events": [], "after": "0.0"})
            elif self.path == "/v1/cluster":
                self.answer({"controller": 1, "brokers": brokers, "topics": topics})
            elif self.path == "/v1/console":
                self.answer({}, cookie=COOKIE)
            elif COOKIE not in self.headers.get("cookie", ""):
                self.answer({}, 403)
            else:
                self.answer(heat())

        def answer(self, value: dict[str, Any], code: int = 200, cookie: str | None = None) -> None:
            self.send_response(code)
            if cookie is not None:
                self.send_header("set-cookie", cookie)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


if __name__ == "__main__":
    Part(*sys.argv[1:])
