"""What runs beside the nodes: its command, when it is ready, and how soon it is started again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from penstock.supervisor.folder import ClusterFolder, NodeFolder
from penstock.supervisor.layout import ClusterLayout, NodeSpec
from penstock.supervisor.processes import SupervisedProcess
from penstock.supervisor.restarts import Restarts
from penstock.supervisor.services import FLIGHTS, FLIGHTS_BACK_OFF, flights_command
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENT = "import signal; print('hello\\nready flights data=x', flush=True); signal.pause()"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SupervisedProcess]:
    process = SupervisedProcess(
        FLIGHTS, NodeFolder(tmp_path), [sys.executable, "-c", PATIENT], prints_ready=True
    )
    yield process
    process.signal(9)
    wait_until(lambda: process.ending() is not None or process.pid is None, "its end")


def test_the_driver_is_run_with_a_folder_of_its_own(tmp_path: Path) -> None:
    nodes = (
        NodeSpec(1, ("broker", "controller"), "0.0.0.0", 9092),
        NodeSpec(2, ("broker",), "0.0.0.0", 9093),
    )
    command = flights_command(ClusterFolder(tmp_path), ClusterLayout("c", nodes))
    assert command[1:] == [
        "-m", "penstock", "flights", "serve", "--driver", "--bootstrap", "127.0.0.1:9092,127.0.0.1:9093",
        "--data", str(tmp_path / "flights" / "data"),
    ]  # fmt: skip


def test_a_service_that_prints_that_it_is_ready(tmp_path: Path, service: SupervisedProcess) -> None:
    (tmp_path / "log").write_text("ready, says the one before\n")
    service.start()
    wait_until(service.is_ready, "the line")
    assert b"hello" in (tmp_path / "log").read_bytes()


def test_the_line_of_the_one_before_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("ready, says the one before\n")
    process = SupervisedProcess(
        FLIGHTS, NodeFolder(tmp_path), [sys.executable, "-c", "print('steady')"], prints_ready=True
    )
    process.start()
    wait_until(lambda: b"steady" in (tmp_path / "log").read_bytes(), "its output")
    assert not process.is_ready()
    wait_until(lambda: process.ending() is not None, "its end")


def test_one_that_was_adopted_is_ready(tmp_path: Path, service: SupervisedProcess) -> None:
    service.start()
    successor = SupervisedProcess(FLIGHTS, NodeFolder(tmp_path), [], prints_ready=True)
    assert successor.adopt()
    assert successor.is_ready()


def test_a_service_may_have_a_back_off_of_its_own() -> None:
    restarts = Restarts([1], 0.0)
    restarts.add(FLIGHTS, 0.0, FLIGHTS_BACK_OFF)
    for name in (1, FLIGHTS):
        restarts.started(name, 0.0)
    assert restarts.ended(1, 1.0) == pytest.approx(0.2)
    delays = [restarts.ended(FLIGHTS, 1.0) for _ in range(8)]
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
