"""Fixtures for all rings: real brokers."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.broker import BrokerProcess
from tests.support.java import QUICK_START

# A busy machine is not a failure: how long an example takes is for benchmarks.
settings.register_profile("penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("penstock")

# A shell that runs us in the background has us ignore SIGINT, and so would children that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# For whatever starts Spark, also the commands of the docs.
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_START)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres import PostgresProcess


LONG_RINGS = ("browser", "e2e", "compat", "sim")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread the files that start Spark among the others with long tests, and leave short ones for the end.

    Spark wants all cores and the others mostly wait: side by side they fill the machine, where Spark beside
    Spark starves and waiting beside waiting idles. Short files at the end keep all processes busy up to it.
    """
    spark: dict[Path, int] = {}  # each lane: file to its place in it
    long: dict[Path, int] = {}
    short: dict[Path, int] = {}
    for item in items:
        ring = item.path.relative_to(config.rootpath / "tests").parts[0]
        if ring == "pipelines" or item.get_closest_marker("spark"):
            lane = spark
        else:
            lane = long if ring in LONG_RINGS else short
        lane.setdefault(item.path, len(lane))
    order = {path: place / len(lane) for lane in (spark, long) for path, place in lane.items()}
    order |= {path: 1 + place for path, place in short.items()}
    items.sort(key=lambda item: order[item.path])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of this test alone: it may be killed, restarted and filled."""
    folder = tmp_path / "broker"
    folder.mkdir()
    with BrokerProcess(folder) as process:
        yield process


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that only use topics and groups of their own."""
    with BrokerProcess(tmp_path_factory.mktemp("shared-broker")) as process:
        yield process


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresProcess]:
    """One PostgreSQL for all tests that leave it running."""
    from tests.support.postgres import PostgresProcess  # most tests have no need of its driver

    server = PostgresProcess.start()
    yield server
    server.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name for a topic that no other test uses."""
    name = request.node.nodeid.rpartition("::")[2]
    letters = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
    return letters[:200]
