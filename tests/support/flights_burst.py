"""A client that sends every message twice, in bursts and in any order, past the gateway.

    python -m tests.support.flights_burst BOOTSTRAP JOB ITINERARIES AIRPORTS CHUNK_BYTES SEED

It remembers nothing: one that is started again sends everything again.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from tests.support.flights_jobs import send, uploads_of

BURST_MAX = 40
PAUSE_S_MAX = 0.2


def main(bootstrap: str, job: str, itineraries: str, airports: str, chunk_bytes: str, seed: str) -> None:
    chance = random.Random(seed)
    files = {"airports": Path(airports), "itineraries": Path(itineraries)}
    uploads = 2 * uploads_of(files, int(chunk_bytes))
    chance.shuffle(uploads)
    while uploads:
        size = chance.randint(1, BURST_MAX)
        burst, uploads = uploads[:size], uploads[size:]
        send(bootstrap, job, burst)
        time.sleep(chance.uniform(0, PAUSE_S_MAX))  # what makes it a burst


if __name__ == "__main__":
    main(*sys.argv[1:])
