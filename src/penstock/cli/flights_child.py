"""The Flights service beside a single node: a process of its own that ends with the node, and is started
again if it ends before. Nobody waits for it, as Spark takes long to start, and a node whose service does not
start is a node all the same. What it says goes to the terminal of `penstock up`, as stderr.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from penstock.cli.child import end_with_parent
from penstock.supervisor.services import FLIGHTS_BACK_OFF

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from penstock.broker.node import Beside

STOP_S_MAX: Final = 20.0

log = logging.getLogger(__name__)


@asynccontextmanager
async def flights_beside(
    kafka: str, admin_url: str, *, data: Path, beside: Beside | None
) -> AsyncIterator[str]:
    """Runs the service while the block runs, and with it what else is `beside` the node."""
    command = [sys.executable, "-m", "penstock", "flights", "serve", "--driver"]
    child = FlightsChild([*command, "--bootstrap", kafka, "--data", str(data)])
    if beside is None:
        async with child.running():
            yield admin_url
    else:
        async with beside(kafka, admin_url) as url, child.running():
            yield url


class FlightsChild:
    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._stop()

    async def _watch(self) -> None:
        """Start it, and again whenever it ends, after a delay that grows while it does not live."""
        loop = asyncio.get_running_loop()
        ends = 0
        while True:
            started = loop.time()
            try:
                code: object = await self._run()
            except OSError as error:
                code = error
            ends = 1 if loop.time() - started >= FLIGHTS_BACK_OFF.settled_s else ends + 1
            delay = FLIGHTS_BACK_OFF.delay(ends)
            log.warning("the Flights service ended with %s; it is started again in %.1f s", code, delay)
            await asyncio.sleep(delay)

    async def _run(self) -> int:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr,
            # Ctrl-C on the terminal is for the node, which then stops the service.
            start_new_session=True,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )
        return await self._process.wait()

    async def _stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
