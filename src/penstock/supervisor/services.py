"""What runs beside the nodes of a local cluster: the gateway.

A service has a folder like a node's. It keeps nothing there but its log and who it is; all it knows is in the
cluster.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.listening import format_address
from penstock.supervisor.layout import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.supervisor.folder import ClusterFolder
    from penstock.supervisor.layout import ClusterLayout

GATEWAY: Final = "gateway"


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


def gateway_command(
    options: GatewayOptions, folder: ClusterFolder, layout: ClusterLayout, admin_url: str
) -> list[str]:
    kafka = ",".join(format_address(LOOPBACK.get(node.host, node.host), node.port) for node in layout.brokers)
    command = [sys.executable, "-m", "penstock", "gateway", "--bootstrap", kafka, "--admin-url", admin_url]
    command += ["--host", options.host, "--http-port", str(options.port)]
    command += ["--status-folder", str(folder.service(GATEWAY).data)]
    if options.token_file is not None:
        command += ["--http-token-file", options.token_file]
    return command
