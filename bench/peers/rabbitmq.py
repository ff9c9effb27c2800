"""RabbitMQ: a node of its own beside any that runs already, with its own name, ports, cookie and folders.

It gets its own epmd as well, so that the one a machine may already run is not touched.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from bench.peers.base import Peer
from bench.process import UnavailableError, free_port, listening, require_module, spawn, wait_until

# The wrapper on the PATH changes to a service user that cannot see our folder.
SERVER: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
LIBRARY: Final = Path("/usr/lib/rabbitmq/lib")


def start(directory: Path) -> Peer:
    require_module("pika")
    epmd = shutil.which("epmd")
    if epmd is None or not SERVER.exists():
        raise UnavailableError("no rabbitmq-server")
    port, epmd_port, dist_port = free_port(), free_port(), free_port()
    plugins = directory / "enabled_plugins"
    plugins.write_text("[].\n")
    mapper = spawn([epmd, "-port", str(epmd_port), "-address", "127.0.0.1"], directory / "epmd.log")
    environment = {
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(dist_port),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    process = spawn([SERVER], directory / "rabbitmq.log", environment)
    peer = Peer(
        name="RabbitMQ",
        version=_version(),
        port=port,
        process=process,
        directory=directory,
        helpers=(mapper,),
    )
    try:
        wait_until(lambda: listening(port), "rabbitmq-server", process)
    except UnavailableError:
        peer.stop()
        raise
    return peer


def _version() -> str:
    found = sorted(path.name.partition("-")[2] for path in LIBRARY.glob("rabbitmq_server-*"))
    return found[-1] if found else "unknown"
