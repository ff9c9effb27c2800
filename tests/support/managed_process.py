"""A child process of a test: started with its output in a file, waited for, killed, paused, started again.

    class Gateway(ManagedProcess):
        def command(self) -> list[str]:
            return penstock("gateway", "--http-port", "8080")

    with Gateway("the gateway", tmp_path / "gateway.log", ready="ready http=") as gateway:
        …
        gateway.restart(clean=False)

Whoever waits is woken by the kernel: by inotify when something is added to the output, by a pidfd when the
process ends. A failure shows the end of the output.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.fork_server import ForkedProcess, fork, may_fork
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
AS_INSTALLED = ROOT / "tests" / "support" / "as_installed"
"""Hides what only tests have."""
READY_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 20.0
TAIL_CHARACTERS = 4_000
IN_MODIFY = 2
EVENTS_BYTES = 4096

LIBC = ctypes.CDLL(None, use_errno=True)


def penstock(*arguments: str, python: str = sys.executable) -> list[str]:
    """The command line of a `penstock` command, of this source tree."""
    return [python, "-m", "penstock", *arguments]


def environment_with(*modules: Path, **variables: str) -> dict[str, str]:
    """The environment of this process, with these folders of modules before Penstock's own.

    Many processes should not each compile the same modules, whatever the environment says.
    """
    path = os.pathsep.join(map(str, (AS_INSTALLED, *modules, SOURCE)))
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": path, **variables}


class ManagedProcess:
    def __init__(
        self,
        name: str,
        log: Path,
        *,
        errors: Path | None = None,
        ready: str = "ready ",
        environment: Mapping[str, str] | None = None,
        own_group: bool = False,
        ready_s_max: float = READY_SECONDS_MAX,
        stop_s_max: float = STOP_SECONDS_MAX,
        **options: Any,
    ) -> None:
        """Describe the process; nothing is started yet.

        `log` gets standard output, and standard error unless that has a file of its own, `errors`. `ready`
        starts the line with which the process says that it serves. With `own_group`, `kill` ends all
        processes of the group. `options` are Popen's.
        """
        self.name = name
        self.environment = environment_with() if environment is None else dict(environment)
        self._errors_path = errors
        self._ready = ready
        self._own_group = own_group
        self._options = options
        self._ready_s_max = ready_s_max
        self._stop_s_max = stop_s_max
        self._log_path = log
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def says_ready(self, line: str) -> bool:
        return line.startswith(self._ready)

    # Start

    def spawn(self) -> None:
        """Start the process and do not wait until it serves."""
        assert not self.running, f"{self.name} runs already"
        with ExitStack() as files:
            log = files.enter_context(self._log_path.open("ab"))
            errors = files.enter_context(self._errors_path.open("ab")) if self._errors_path else None
            self._log_start = log.tell()
            command = self.command()
            if self._may_fork(command):
                nothing = files.enter_context(open(os.devnull, "rb"))
                self._process = fork(
                    command[len(penstock()) :],
                    self.environment,
                    cwd=None,
                    stdin=nothing.fileno(),
                    stdout=log.fileno(),
                    stderr=(errors or log).fileno(),
                )
                return
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=errors or subprocess.STDOUT,
                env=self.environment,
                start_new_session=self._own_group,
                **self._options,
            )

    def _may_fork(self, command: list[str]) -> bool:
        """Whether it is `penstock`, as it was imported by this interpreter, with nothing special about it."""
        return (
            command[: len(penstock())] == penstock()
            and may_fork(command[len(penstock()) :])
            and self.environment.get("PYTHONPATH") == environment_with()["PYTHONPATH"]
            and not self._own_group
            and not self._options
        )

    def start(self, *, timeout_s: float | None = None) -> Self:
        """Start the process and wait until it serves."""
        self.spawn()
        self.wait_ready(timeout_s=timeout_s)
        return self

    def wait_ready(self, *, timeout_s: float | None = None) -> str:
        """The line that says so; a process that does not say it in time is killed."""
        timeout_s = self._ready_s_max if timeout_s is None else timeout_s
        try:
            return self.wait_for_line(self.says_ready, f"the ready line of {self.name}", timeout_s=timeout_s)
        except BaseException:
            self.kill()
            raise

    def wait_for_line(self, is_wanted: Callable[[str], bool], what: str, *, timeout_s: float) -> str:
        """The first whole line since the last start for which `is_wanted` is true."""

        def line() -> str | None:
            ended = self.exit_code  # before the output is read, so that its last line counts
            whole = self.log.rpartition("\n")[0]
            found = next((line for line in whole.splitlines() if is_wanted(line)), None)
            assert found or ended is None, f"{self.name} ended with {ended}"
            return found

        return str(self.wait_until(line, what, timeout_s=timeout_s))

    def wait_until(self, condition: Callable[[], Any], what: str, *, timeout_s: float) -> Any:
        """A condition on the output or the end of the process, asked again whenever one of them changes."""
        try:
            with self._changes() as changed:
                return wait_until(condition, what, timeout_s=timeout_s, event=changed)
        except AssertionError as error:
            error.add_note(f"end of the output of {self.name}:\n{self.log[-TAIL_CHARACTERS:]}")
            raise

    @contextmanager
    def _changes(self) -> Iterator[Callable[[float], None]]:
        """A function that returns when there is more output, when the process ends, or after some seconds."""
        watch = LIBC.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if watch < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        sources = [watch]
        try:
            for path in filter(None, (self._log_path, self._errors_path)):
                if LIBC.inotify_add_watch(watch, bytes(path), IN_MODIFY) < 0:
                    raise OSError(ctypes.get_errno(), "inotify_add_watch failed", str(path))
            if self.running:
                with suppress(ProcessLookupError):  # it has ended since, and the condition is asked first
                    sources.append(os.pidfd_open(self.pid))

            poll = select.poll()  # `select` takes no descriptor above 1023, and clients may have taken those
            for source in sources:
                poll.register(source, select.POLLIN)

            def changed(seconds: float) -> None:
                if any(source == watch for source, _ in poll.poll(seconds * 1000)):
                    os.read(watch, EVENTS_BYTES)

            yield changed
        finally:
            for source in sources:
                os.close(source)

    # State

    @property
    def process(self) -> subprocess.Popen[bytes] | ForkedProcess:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while the process runs."""
        return self.process.poll()

    @property
    def log(self) -> str:
        """What the process printed since its last start."""
        with self._log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    # End

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: what a loss of power is to the process, not to the disk."""
        if self._own_group:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        elif self.running:
            self.process.kill()
        self.process.wait()

    def terminate(self, *, timeout_s: float | None = None) -> int:
        """SIGTERM, then the exit code, which is 0 after a clean stop."""
        if self.running:
            self.signal(signal.SIGTERM)
        return self.wait(timeout_s=timeout_s)

    def wait(self, *, timeout_s: float | None = None) -> int:
        """The exit code; a process that does not end in time is killed."""
        timeout_s = self._stop_s_max if timeout_s is None else timeout_s
        try:
            self.wait_until(lambda: not self.running, f"the end of {self.name}", timeout_s=timeout_s)
        except AssertionError:
            self.kill()
            raise
        return int(self.process.returncode)

    def restart(self, *, clean: bool = True) -> Self:
        """The same process again, after a clean stop or after SIGKILL."""
        if clean:
            code = self.terminate()
            assert code == 0, f"{self.name} ended with {code}:\n{self.log}"
        else:
            self.kill()
        return self.start()

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        if error is not None:
            error.add_note(f"end of the output of {self.name}:\n{self.log[-TAIL_CHARACTERS:]}")
            self.kill()
        else:
            self.end()

    def end(self) -> None:
        """How the process ends with a `with` in which nothing failed."""
        self.terminate()
