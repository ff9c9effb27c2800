"""The gateway beside a single node: a process of its own that ends with the node, and is started again if it
ends before. What it says on stderr goes to the terminal of `penstock up`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from penstock.cli.child import end_with_parent
from penstock.cli.output import CommandFailed
from penstock.supervisor.restarts import BackOff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

READY: Final = re.compile(rb"ready http=(\S+)")
COMPLAINT: Final = b"penstock: "
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 10.0

log = logging.getLogger(__name__)


@asynccontextmanager
async def gateway_beside(
    kafka: str, admin_url: str, *, host: str, http_port: int, options: Sequence[str] = ()
) -> AsyncIterator[str]:
    """Runs a gateway while the block runs; its address. CommandFailed says why it does not start."""
    child = GatewayChild(kafka, admin_url, host, http_port, options)
    url = await child.start()
    watching = asyncio.get_running_loop().create_task(child.watch())
    try:
        yield url
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await child.stop()


class GatewayChild:
    def __init__(self, kafka: str, admin_url: str, host: str, http_port: int, options: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "penstock", "gateway", "--bootstrap", kafka]
        self._command += ["--admin-url", admin_url, "--host", host, *options]
        self._http_port = http_port
        self._process: asyncio.subprocess.Process | None = None
        self._complaint = b""
        self._stderr: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """The address under which it serves, the same at every start."""
        self._complaint = b""
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            "--http-port",
            str(self._http_port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C on the terminal is for the node, which then stops the gateway.
            start_new_session=True,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )
        assert process.stderr is not None
        self._stderr = asyncio.get_running_loop().create_task(self._pass_on(process.stderr))
        try:
            async with asyncio.timeout(START_S_MAX):
                url = await self._until_ready(process)
        except BaseException:
            await self.stop()
            raise
        self._http_port = int(url.rpartition(":")[2])
        return url

    async def _until_ready(self, process: asyncio.subprocess.Process) -> str:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            found = READY.match(line)
            if found:
                return found[1].decode()
        await process.wait()
        assert self._stderr is not None
        await self._stderr
        reason = self._complaint.decode(errors="replace") or f"exit code {process.returncode}"
        raise CommandFailed(f"the gateway did not start: {reason}")

    async def _pass_on(self, stderr: asyncio.StreamReader) -> None:
        while line := await stderr.readline():
            if line.startswith(COMPLAINT):
                self._complaint = line.removeprefix(COMPLAINT).strip()
            else:
                sys.stderr.buffer.write(line)
                sys.stderr.flush()

    async def watch(self) -> None:
        """Start it again whenever it ends, after a delay that grows while it does not live."""
        loop = asyncio.get_running_loop()
        back_off = BackOff()
        ends = 0
        started = loop.time()
        while True:
            assert self._process is not None
            code = await self._process.wait()
            ends = 1 if loop.time() - started >= back_off.settled_s else ends + 1
            delay = back_off.delay(ends)
            log.warning("the gateway ended with %s; it is started again in %.1f s", code, delay)
            await asyncio.sleep(delay)
            started = loop.time()
            try:
                await self.start()
            except (CommandFailed, TimeoutError, OSError) as error:
                log.warning("%s", error or "the gateway did not start in time")

    async def stop(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)
            try:
                async with asyncio.timeout(STOP_S_MAX):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._stderr is not None:
            await self._stderr
