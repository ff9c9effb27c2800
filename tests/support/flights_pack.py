"""Clients of the Flights service, and somebody who kills them, the service and the cluster at random.

    pack = Pack(folder, cluster, service, seed)
    pack.add_client(table)
    pack.rage(kills)
    pack.finish()

A client sends its table as one job after the other, as long as there is somebody to be killed, so that there
is always something under way. One that was killed is started again with the same job, and every result is
compared with what the oracle says as soon as the client has it.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker import node_status
from penstock.supervisor.services import GATEWAY
from tests.support import processes
from tests.support.flights_jobs import Table, check_topic, status, submit_command
from tests.support.managed_process import ROOT, ManagedProcess, environment_with
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from tests.support.flights_service import FlightsService
    from tests.support.supervised import SupervisedCluster

KINDS = ("driver", "worker", "gateway", "broker", "client")
CALM_S_MAX = 2.5
"""Between two kills."""
BUSY_S_MAX = 5.0
"""So long somebody who is to die in the middle of a batch is waited for."""
HASTY = 0.2
"""Of the kills of drivers and workers, those that do not wait until something was done since the last one."""
JAVA, PARENT = 0.25, 0.15
"""Of the kills of drivers, those that kill its Java process, or the process that watches over it."""
PAIRS = 0.2
"""Of the kills of brokers, those that take a second one."""
STEP_S = 0.05
READY_S_MAX, FINISH_S_MAX, ORPHANS_S_MAX = 240.0, 400.0, 20.0
BURST_CHUNK_BYTES = 16 * 1024


class Client(ManagedProcess):
    """`penstock flights submit`, again and again."""

    def __init__(self, name: str, folder: Path, cluster: SupervisedCluster, table: Table) -> None:
        super().__init__(name, folder / name / "log", environment=environment_with(ROOT))
        self.table = table
        self.job = ""
        self.done: list[str] = []
        self.lives = 0
        self._cluster = cluster
        self._folder = folder / name
        self._folder.mkdir()

    def command(self) -> list[str]:
        return submit_command(self._cluster.http, self.table, self.job, self.out)

    @property
    def out(self) -> Path:
        return self._folder / self.job

    def begin(self) -> None:
        self.job = str(uuid.uuid4())
        self.send()

    def send(self) -> None:
        self.spawn()

    def spawn(self) -> None:
        super().spawn()
        self.lives += 1

    def step(self) -> bool:
        """Whether it is done with its job."""
        if self.running:
            return False
        code = self.process.returncode
        if code == -signal.SIGKILL:
            self.send()
            return False
        assert code == 0, f"{self.name} ended with {code}, job {self.job}:\n{self.log[-2_000:]}"
        return self._succeeded()

    def _succeeded(self) -> bool:
        self.table.check(self.out)
        self.done.append(self.job)
        return True


class BurstClient(Client):
    """Sends with a producer, everything twice; then it waits as anybody does who only wants to know."""

    _is_sending = False

    def send(self) -> None:
        self._is_sending = True
        super().send()

    def command(self) -> list[str]:
        if not self._is_sending:
            return super().command()
        files = str(self.table.itineraries), str(self.table.airports)
        seed = f"{self.job}{self.lives}"
        arguments = (self._cluster.bootstrap, self.job, *files, str(BURST_CHUNK_BYTES), seed)
        return [sys.executable, "-m", "tests.support.flights_burst", *arguments]

    def _succeeded(self) -> bool:
        if not self._is_sending:
            return super()._succeeded()
        try:
            told = status(self._cluster.http, self.job)
        except (OSError, json.JSONDecodeError):  # a gateway that was killed
            return False
        assert told["state"] in ("receiving", "computing", "complete"), f"{self.name}: {told}"
        if told["state"] == "complete":
            assert told["files"]["itineraries"]["duplicates"] > 0, told
            self._is_sending = False
            self.spawn()
        return False


class Pack:
    def __init__(self, folder: Path, cluster: SupervisedCluster, service: FlightsService, seed: str) -> None:
        self.story: list[str] = []
        self.kills: Counter[str] = Counter()
        self.clients: list[Client] = []
        self._folder = folder
        self._cluster = cluster
        self._service = service
        self._chance = random.Random(seed)
        self._began = time.monotonic()
        self._is_raging = True
        # The first driver dies in `forget_commit`: each start of Spark is a good part of the short form.
        self._order = self._chance.sample([kind for kind in KINDS if kind != "driver"], len(KINDS) - 1)
        self._batches = -1
        """That were done when the service was last killed."""
        self._strikes: dict[str, Callable[[], str]] = {
            "driver": self._kill_driver,
            "worker": self._kill_worker,
            "gateway": self._kill_gateway,
            "broker": self._kill_broker,
            "client": self._kill_client,
        }

    def add_client(self, table: Table, kind: type[Client] = Client) -> None:
        client = kind(f"client-{len(self.clients)}", self._folder, self._cluster, table)
        self.clients.append(client)
        client.begin()

    def tell(self, text: str) -> None:
        self.story.append(f"{time.monotonic() - self._began:7.2f} {text}")

    def rage(self, kills: int) -> None:
        """So many, each kind before any comes again."""
        for _ in range(kills):
            self._order = self._order or self._chance.sample(KINDS, len(KINDS))
            self._wait_for(lambda: False, self._chance.uniform(0.0, CALM_S_MAX))
            kind = self._order.pop()
            whom = self._strikes[kind]()
            self.kills[kind] += bool(whom)
            self.tell(f"kill {kind}: {whom or 'nobody was there'}")

    def forget_commit(self) -> None:
        """The service is killed, and Spark has forgotten its last batch when it starts again."""
        self._wait_progress()
        whom = self._kill_parent()
        self.kills["driver"] += 1
        self.tell(f"kill {whom}; removed the commit of batch {self._service.remove_newest_commit()}")
        self._service.spawn()

    def finish(self) -> None:
        """Everybody comes to the end of what is under way."""
        self._is_raging = False
        self.tell("no more kills")
        is_done = self._wait_for(lambda: not any(client.job for client in self.clients), FINISH_S_MAX)
        left = {client.name: client.job for client in self.clients if client.job}
        assert is_done, f"not done: {left}; {[status(self._cluster.http, job) for job in left.values()]}"

    def check(self) -> None:
        """The topic of results and the files of the service; what clients got was compared already."""
        jobs = {job: client.table for client in self.clients for job in client.done}
        check_topic(self._cluster.bootstrap, self._cluster.http, jobs, self._folder)
        for job, table in jobs.items():
            table.check(self._service.data / "results" / job)

    def end(self) -> None:
        for client in self.clients:
            client.kill()

    # Time

    def _wait_for(self, condition: Callable[[], object], seconds: float) -> bool:
        """Whether it came true. Clients go on meanwhile."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= deadline:
                return False
            for client in self.clients:
                if client.job and client.step():
                    self.tell(f"{client.name} is done with job {client.job}")
                    client.job = ""
                    if self._is_raging:
                        client.begin()
            time.sleep(STEP_S)
        return True

    def _wait_ready(self) -> None:
        is_ready = self._wait_for(lambda: self._service.is_ready, READY_S_MAX * PATIENCE)
        assert is_ready, "the service does not come back"

    def _wait_progress(self) -> None:
        """Until a batch was done since the last time, and another one is under way, as a rule."""
        self._wait_ready()
        done = self._wait_for(lambda: self._service.newest("commits") > self._batches, READY_S_MAX * PATIENCE)
        assert done, f"no batch after {self._batches} is done"
        self._wait_for(lambda: self._service.newest("offsets") > self._service.newest("commits"), BUSY_S_MAX)
        self._batches = self._service.newest("commits")

    # Kills: each says who it was, or nothing if nobody was there

    def _kill_driver(self) -> str:
        if self._chance.random() < HASTY:
            return self._killed(self._service.driver_pid, "driver, perhaps not ready")
        kind = self._chance.random()
        self._wait_progress()
        if kind < JAVA:
            return self._killed(self._service.java_pid, "java")
        if kind < JAVA + PARENT:
            whom = self._kill_parent()
            self._service.spawn()
            return whom
        return self._killed(self._service.driver_pid, "driver")

    def _kill_parent(self) -> str:
        """Not started again yet; when this returns, nobody writes to its folder."""
        driver, java = self._service.driver_pid, self._service.java_pid
        self._service.kill()
        gone = self._wait_for(
            lambda: not any(pid is not None and processes.stat_fields(pid) for pid in (driver, java)),
            ORPHANS_S_MAX * PATIENCE,
        )
        assert gone, "the driver or its Java outlives the process that watches over it"
        return f"the driver's parent, and with it driver {driver}"

    def _kill_worker(self) -> str:
        if self._chance.random() >= HASTY:
            self._wait_progress()
        workers = self._service.worker_pids
        return self._killed(self._chance.choice(workers) if workers else None, "worker")

    def _kill_gateway(self) -> str:
        serving = node_status.read(self._cluster.folder.service(GATEWAY).data)
        return self._killed(serving.pid if serving is not None else None, "gateway")

    def _kill_broker(self) -> str:
        serving = [(node, pid) for node, pid in self._cluster.node_pids().items() if pid is not None]
        count = min(2 if self._chance.random() < PAIRS else 1, len(serving))
        killed = self._chance.sample(serving, count)
        return ", ".join(self._killed(pid, f"broker {node}") for node, pid in killed)

    def _kill_client(self) -> str:
        client = self._chance.choice(self.clients)
        if client.running:
            client.kill()
            return f"{client.name} in life {client.lives}"
        return ""

    def _killed(self, pid: int | None, what: str) -> str:
        return f"{what} {pid}" if pid is not None and processes.kill(pid) else ""
