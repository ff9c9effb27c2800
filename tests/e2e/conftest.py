"""Processes that tests of this ring share.

`shared_…` are for tests with topics and groups of their own (fixture `topic`), `file_…` for files whose
topics have given names, as those of Flights and Traffic. A test that kills a broker or a gateway, or needs
options, starts its own: `broker`, or a `with GatewayProcess(…)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.broker import BrokerProcess
from tests.support.cluster import RACKS, Cluster
from tests.support.gateway import GatewayProcess

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def session_gateway(
    request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """Of all tests of a test process: let them ask for `shared_gateway`."""
    broker: BrokerProcess = request.getfixturevalue("shared_broker")
    admin = ("--admin-url", broker.http) if bootstrap == broker.bootstrap else ()
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), bootstrap, *admin) as process:
        yield process


@pytest.fixture
def shared_gateway(session_gateway: GatewayProcess) -> Iterator[GatewayProcess]:
    """One gateway for all tests, of `shared_broker`; no test makes it fail."""
    before = len(session_gateway.log)
    yield session_gateway
    assert "Traceback" not in session_gateway.log[before:]


@pytest.fixture(scope="module")
def file_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of a test file, in memory."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), "--storage", "memory") as process:
        yield process


@pytest.fixture(scope="module")
def file_gateway(
    file_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """A gateway of a test file; none of its tests makes it fail."""
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), file_broker.bootstrap) as process:
        yield process
        assert "Traceback" not in process.log


@pytest.fixture(scope="module")
def file_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of a test file. Not of all: after a minute, idle ones have cost more than new ones do."""
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=3, racks=RACKS) as running:
        yield running


@pytest.fixture
def shared_cluster(file_cluster: Cluster) -> Iterator[Cluster]:
    """Three brokers, each in a rack, for the tests of a file; those that a test kills are started again."""
    yield file_cluster
    file_cluster.start_again(*file_cluster.nodes.values())
    file_cluster.wait_healed([])
