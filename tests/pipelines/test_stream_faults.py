"""Streams into files and into a topic, killed at random moments and robbed of their last commit: each record
exactly once.

The queries run in a process of their own. It is killed with SIGKILL, its Java and Python workers with it, at
a random moment after it started, and in every second round the broker is, while they run; before some
restarts the last files of the checkpoints' `commits` are removed: then Spark believes that a batch which is
complete was never done.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from tests.pipelines.stream_to_files import MESSAGES_PER_BATCH
from tests.support import topics
from tests.support.broker import BrokerProcess
from tests.support.committed import read_committed
from tests.support.java import QUICK_START
from tests.support.managed_process import ROOT, ManagedProcess, environment_with
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

KILLS = int(os.environ.get("PENSTOCK_STREAM_KILLS", "1"))
PROGRAM = Path(__file__).with_name("stream_to_files.py")
TOPIC, COPY, PARTITIONS = "records", "copies", 3
CHECKPOINTS = ("checkpoint", "copy-checkpoint")
ROUND_MESSAGES = 3 * MESSAGES_PER_BATCH
"""Written in each round: enough for the batches that are waited for, and one that the kill may meet."""
BATCHES_BEFORE_KILL_MAX = 2
KILL_AFTER_S_MAX = 1.5
START_S_MAX, FINISH_S_MAX = 180.0, 600.0


class StreamProcess(ManagedProcess):
    """The query, which is killed with all its processes at the end of a `with`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        super().__init__(
            "the stream",
            folder / "stream.log",
            environment=environment_with(ROOT, JAVA_TOOL_OPTIONS=QUICK_START),
            own_group=True,
            ready_s_max=START_S_MAX,
        )
        self._command = [sys.executable, str(PROGRAM), bootstrap, TOPIC, COPY, str(folder)]

    def command(self) -> list[str]:
        return self._command

    def says_ready(self, line: str) -> bool:
        return "running" in line

    def end(self) -> None:
        code = self.exit_code
        self.kill()
        assert code is None, f"the stream ended by itself with {code}:\n{self.log}"


def wait_while(stream: StreamProcess, behind: Callable[[], bool], timeout_s: float) -> None:
    """Until it is no longer behind, or has ended, of which `StreamProcess` complains."""
    wait_until(lambda: not behind() or not stream.running, "batches", timeout_s=timeout_s)


def last_commit(checkpoint: Path) -> Path | None:
    commits = [path for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    return max(commits, key=lambda path: int(path.name), default=None)


def committed_batches(folder: Path) -> int:
    """Of the query that has fewer."""
    last = [last_commit(folder / name) for name in CHECKPOINTS]
    return min(-1 if commit is None else int(commit.name) for commit in last)


def remove_last_commits(folder: Path) -> int:
    """How many there were."""
    last = [commit for name in CHECKPOINTS if (commit := last_commit(folder / name)) is not None]
    for commit in last:
        commit.unlink()
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    return len(last)


def write_round(bootstrap: str, number: int) -> list[str]:
    values = [f"{number}:{index}" for index in range(ROUND_MESSAGES)]
    topics.fill_all(
        bootstrap,
        TOPIC,
        ({"value": value.encode(), "partition": index % PARTITIONS} for index, value in enumerate(values)),
    )
    return values


def committed_records(checkpoint: Path) -> int:
    """How many records lie before the end of the last batch that is complete."""
    last = last_commit(checkpoint)
    if last is None:
        return 0
    *_, end = (checkpoint / "offsets" / last.name).read_text().splitlines()
    return sum(json.loads(end)[TOPIC].values())


def read_back(folder: Path) -> Counter[str]:
    """The records in the files, as any reader of the folder sees them. Nothing may be running."""
    files = sorted((folder / "out").glob("batch=*/*.parquet"))
    return Counter(value for file in files for value in parquet.read_table(file)["value"].to_pylist())


def read_copies(bootstrap: str) -> Counter[str]:
    """The records in the topic, as a reader of committed data sees them, up to an open transaction."""
    return Counter(value.decode() for value in read_committed(bootstrap, COPY, PARTITIONS))


def staged_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "copy-checkpoint-staging").rglob("*") if path.is_file()]


def doubled(found: Counter[str]) -> list[str]:
    return [value for value, count in found.items() if count > 1]


@pytest.mark.timeout(0)
def test_each_record_exactly_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", "7"))
    chance = random.Random(seed)
    sent: list[str] = []
    repeated = 0
    with BrokerProcess(tmp_path) as broker:
        topics.create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        topics.create_topic(broker.bootstrap, COPY, PARTITIONS)
        for number in range(KILLS):
            sent += write_round(broker.bootstrap, number)
            goal = committed_batches(tmp_path) + chance.randint(0, BATCHES_BEFORE_KILL_MAX)
            with StreamProcess(broker.bootstrap, tmp_path) as stream:
                if number % 2 == 0:
                    broker.restart(clean=False)
                wait_while(stream, lambda: committed_batches(tmp_path) < goal, START_S_MAX)  # noqa: B023
                threading.Event().wait(chance.uniform(0, KILL_AFTER_S_MAX))  # the random moment, not luck
            if number == KILLS - 1 or chance.random() < 0.5:
                repeated += remove_last_commits(tmp_path)
            assert doubled(read_back(tmp_path)) == [], f"seed {seed}: in two files after kill {number}"
            assert doubled(read_copies(broker.bootstrap)) == [], f"seed {seed}: after kill {number}"
        with StreamProcess(broker.bootstrap, tmp_path) as stream:
            for name in CHECKPOINTS:
                checkpoint = tmp_path / name
                wait_while(stream, lambda: committed_records(checkpoint) < len(sent), FINISH_S_MAX)  # noqa: B023
        print(f"seed {seed}: {KILLS} kills, {repeated} commits removed, {len(sent)} records")
        assert repeated > 0
        assert read_back(tmp_path) == Counter(sent), f"seed {seed}"
        assert read_copies(broker.bootstrap) == Counter(sent), f"seed {seed}"
    assert staged_files(tmp_path) == []
