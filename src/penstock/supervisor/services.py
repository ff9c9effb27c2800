"""What runs beside the nodes of a local cluster: the gateway, and the Flights service if it is asked for.

A service has a folder like a node's, with its log and who it is. The gateway keeps nothing else there, as all
it knows is in the cluster; the Flights service stages files of jobs in it. Nobody waits for that one: Spark
takes long to start, and a cluster without it is a cluster all the same.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.hosts import is_loopback
from penstock.listening import format_address
from penstock.supervisor.layout import LOOPBACK
from penstock.supervisor.restarts import BackOff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.supervisor.folder import ClusterFolder
    from penstock.supervisor.layout import ClusterLayout

GATEWAY: Final = "gateway"
FLIGHTS: Final = "flights"
NOT_WAITED_FOR: Final = frozenset({FLIGHTS})
FLIGHTS_BACK_OFF: Final = BackOff(first_s=1.0, max_s=60.0, settled_s=30.0)
"""Each attempt to start Spark takes a core for ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    host: str
    port: int
    token_file: str | None = None

    @property
    def url(self) -> str:
        return f"http://{format_address(self.host, self.port)}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GatewayOptions:
        """KeyError, TypeError or ValueError if it is none."""
        token_file = value["token_file"]
        return cls(
            host=str(value["host"]),
            port=int(value["port"]),
            token_file=None if token_file is None else str(token_file),
        )


def addresses(layout: ClusterLayout) -> str:
    """Of the brokers, from this machine."""
    return ",".join(format_address(LOOPBACK.get(node.host, node.host), node.port) for node in layout.brokers)


def flights_command(folder: ClusterFolder, layout: ClusterLayout) -> list[str]:
    """The driver itself: what restarts it is the supervisor."""
    command = [sys.executable, "-m", "penstock", "flights", "serve", "--driver"]
    return [*command, "--bootstrap", addresses(layout), "--data", str(folder.service(FLIGHTS).data)]


def gateway_command(
    options: GatewayOptions, folder: ClusterFolder, layout: ClusterLayout, admin_url: str
) -> list[str]:
    command = [sys.executable, "-m", "penstock", "gateway", "--bootstrap", addresses(layout)]
    command += ["--admin-url", admin_url]
    command += ["--host", options.host, "--http-port", str(options.port)]
    command += ["--status-folder", str(folder.service(GATEWAY).data)]
    if not is_loopback(options.host):
        command.append("--insecure")  # the nodes were told that it is meant
    if options.token_file is not None:
        command += ["--http-token-file", options.token_file]
    return command
