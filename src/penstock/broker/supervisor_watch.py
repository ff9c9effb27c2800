"""The active controller keeps the supervisor of a local cluster alive, as the supervisor keeps the nodes."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.controller.controller import Controller

log = logging.getLogger(__name__)

CHECK_S: Final = 1.0


async def watch_supervisor(folder: Path, controller: Controller) -> None:
    """Until cancelled."""
    from penstock.supervisor.revive import ensure_running  # most nodes have no supervisor

    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(CHECK_S)
        if not controller.is_active:
            continue
        try:
            if await loop.run_in_executor(None, ensure_running, folder):
                log.warning("the supervisor was gone; started another one")
        except (OSError, subprocess.SubprocessError) as error:
            log.error("cannot start a supervisor: %s", error)
