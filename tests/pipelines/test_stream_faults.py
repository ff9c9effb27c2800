"""A stream into files, killed at random moments and robbed of its last commit: each record exactly once.

The query runs in a process of its own. It is killed with SIGKILL, its Java and Python workers with it, at a
random moment after it started; before some restarts the last file of the checkpoint's `commits` is removed:
then Spark believes that a batch which is complete was never done.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from tests.pipelines.stream_to_files import MESSAGES_PER_BATCH
from tests.support import topics
from tests.support.broker import SOURCE, BrokerProcess
from tests.support.java import QUICK_START
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLS = int(os.environ.get("PENSTOCK_STREAM_KILLS", "2"))
PROGRAM = Path(__file__).with_name("stream_to_files.py")
TOPIC, PARTITIONS = "records", 3
ROUND_MESSAGES = 5 * MESSAGES_PER_BATCH
"""Written in each round: enough for the batches that are waited for, and one that the kill may meet."""
BATCHES_BEFORE_KILL_MAX = 4
KILL_AFTER_S_MAX = 1.5
START_S_MAX, FINISH_S_MAX = 180.0, 600.0


@contextmanager
def running_stream(bootstrap: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The query in a process group of its own, which is killed as a whole at the end."""
    log = folder / "stream.log"
    with log.open("ab") as output:
        start = output.tell()
        process = subprocess.Popen(
            [sys.executable, PROGRAM, bootstrap, TOPIC, folder],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": f"{SOURCE}:{SOURCE.parent}", "JAVA_TOOL_OPTIONS": QUICK_START},
            start_new_session=True,
        )

    def printed() -> str:
        return log.read_bytes()[start:].decode(errors="replace")

    try:
        wait_until(
            lambda: "running" in printed() or process.poll() is not None, "the query", timeout_s=START_S_MAX
        )
        assert process.poll() is None, f"the stream ended by itself:\n{printed()}"
        yield process
        assert process.poll() is None, f"the stream ended by itself:\n{printed()}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def last_commit(folder: Path) -> Path | None:
    commits = [path for path in (folder / "checkpoint" / "commits").glob("*") if path.name.isdigit()]
    return max(commits, key=lambda path: int(path.name), default=None)


def committed_batches(folder: Path) -> int:
    last = last_commit(folder)
    return -1 if last is None else int(last.name)


def write_round(bootstrap: str, number: int) -> list[str]:
    values = [f"{number}:{index}" for index in range(ROUND_MESSAGES)]
    topics.fill_all(
        bootstrap,
        TOPIC,
        ({"value": value.encode(), "partition": index % PARTITIONS} for index, value in enumerate(values)),
    )
    return values


def committed_records(folder: Path) -> int:
    """How many records lie before the end of the last batch that is complete."""
    last = last_commit(folder)
    if last is None:
        return 0
    *_, end = (folder / "checkpoint" / "offsets" / last.name).read_text().splitlines()
    return sum(json.loads(end)[TOPIC].values())


def read_back(folder: Path) -> Counter[str]:
    """The records in the files, as any reader of the folder sees them. Nothing may be running."""
    files = sorted((folder / "out").glob("batch=*/*.parquet"))
    return Counter(value for file in files for value in parquet.read_table(file)["value"].to_pylist())


@pytest.mark.timeout(0)
def test_each_record_exactly_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", "7"))
    chance = random.Random(seed)
    sent: list[str] = []
    repeated = 0
    with BrokerProcess(tmp_path) as broker:
        topics.create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        for number in range(KILLS):
            sent += write_round(broker.bootstrap, number)
            goal = committed_batches(tmp_path) + chance.randint(0, BATCHES_BEFORE_KILL_MAX)
            with running_stream(broker.bootstrap, tmp_path):
                wait_until(lambda: committed_batches(tmp_path) >= goal, "batches", timeout_s=START_S_MAX)  # noqa: B023
                threading.Event().wait(chance.uniform(0, KILL_AFTER_S_MAX))  # the random moment, not luck
            last = last_commit(tmp_path)
            if last is not None and (number == KILLS - 1 or chance.random() < 0.5):
                last.unlink()
                last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
                repeated += 1
            doubled = [value for value, count in read_back(tmp_path).items() if count > 1]
            assert doubled == [], f"seed {seed}: records in two files after kill {number}"
        with running_stream(broker.bootstrap, tmp_path):
            wait_until(
                lambda: committed_records(tmp_path) >= len(sent), "all records", timeout_s=FINISH_S_MAX
            )
    print(f"seed {seed}: {KILLS} kills, {repeated} commits removed, {len(sent)} records")
    assert repeated > 0
    assert read_back(tmp_path) == Counter(sent), f"seed {seed}"
