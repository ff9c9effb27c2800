"""Jepsen's anomalies of transactions, looked for on real processes that are killed, paused and wiped.

Writers put unique values into two topics and commit, abort or abandon them; a copier consumes, processes and
produces; a reader of committed data follows it all. Brokers fail in random combination, those first that
coordinate transactions. Afterwards the checker says whether anybody was given what was aborted or not yet
committed, whether a transaction is torn, whether a committed value is lost, whether anything was copied
twice or not at all.

PENSTOCK_FAULT_SECONDS is the time in which faults happen, PENSTOCK_FAULT_SEED chooses them.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewTopic

from tests.support.cluster import Cluster
from tests.support.nemesis import Nemesis
from tests.support.topics import admin
from tests.support.transaction_clients import (
    COPIED,
    END_S_MAX,
    LEFT,
    PARTITIONS,
    SETTLE_S_MAX,
    TOPICS,
    Client,
    Copier,
    Reader,
    Writer,
    owner,
    place,
    read_to_the_end,
    what_is_open,
)
from tests.support.transaction_history import (
    TransactionHistory,
    check_copy,
    check_transactions,
    report,
    values_of,
)
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("PENSTOCK_FAULT_SECONDS", "6"))
SEED = int(os.environ.get("PENSTOCK_FAULT_SEED", "1"))
WRITERS = 3


@pytest.mark.timeout(SECONDS + 400)
def test_no_anomaly_through_faults(tmp_path: Path) -> None:
    history = TransactionHistory()
    with Cluster(tmp_path, brokers=3) as cluster:
        create_topics(cluster.bootstrap)
        with Load(cluster.bootstrap, history) as load:
            load.wait_for_commits(10)
            nemesis = Nemesis(cluster, "__transaction_state", SEED)
            nemesis.rage(SECONDS)
            nemesis.heal()
            load.wait_for_commits(10)
            load.finish()
        story = "\n".join(nemesis.story)
        assert load.complaints == [], story
        read_to_the_end(Reader("end", cluster.bootstrap, history, threading.Event()))
        found = [*check_written_by_writers(history), *check_copies(history)]
        if found:
            (tmp_path / "journal").write_text("\n".join(load.journal))
        assert found == [], f"{report(found)}\n{story}\nwho did what: {tmp_path / 'journal'}"
        print(f"{load.commits} commits, {load.copies} copies, {len(history.seen)} values seen\n{story}")


def create_topics(bootstrap: str) -> None:
    client = admin(bootstrap)
    for future in client.create_topics([NewTopic(name, PARTITIONS, 3) for name in TOPICS]).values():
        future.result(30)
    owner(bootstrap, "first")  # the nemesis looks for coordinators


class Load:
    """All clients, running while the block does."""

    def __init__(self, bootstrap: str, history: TransactionHistory) -> None:
        self._bootstrap, self._history = bootstrap, history
        self._writing, self._following = threading.Event(), threading.Event()
        self._writers = [
            Writer(f"w{number}", bootstrap, history, self._writing, SEED) for number in range(WRITERS)
        ]
        self._copiers = [Copier("copier", bootstrap, history, self._following)]
        self._reader = Reader("live", bootstrap, history, self._following)

    @property
    def clients(self) -> list[Client]:
        return [*self._writers, *self._copiers, self._reader]

    @property
    def complaints(self) -> list[str]:
        return [each.complaint for each in self.clients if each.complaint is not None]

    @property
    def commits(self) -> int:
        return sum(each.ended for each in self._writers)

    @property
    def copies(self) -> int:
        return sum(each.ended for each in self._copiers)

    @property
    def journal(self) -> list[str]:
        return sorted(line for each in self.clients for line in each.journal)

    def __enter__(self) -> Load:
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._writing.set()
        self._following.set()
        for client in self.clients:
            client.join(END_S_MAX)

    def wait_for_commits(self, more: int) -> None:
        wanted = self.commits + more
        wait_until(
            lambda: self.commits >= wanted or self.complaints, f"{more} commits", timeout_s=SETTLE_S_MAX
        )

    def finish(self) -> None:
        """Writers stop, and what they left open is decided; the copier goes on until all of it is copied."""
        self._writing.set()
        for writer in self._writers:
            writer.join(SETTLE_S_MAX)
            owner(self._bootstrap, writer.name)
        read_to_the_end(Reader("settled", self._bootstrap, self._history, threading.Event()))
        deadline = time.monotonic() + SETTLE_S_MAX
        while self._missing() and not self.complaints:
            if time.monotonic() > deadline:
                raise AssertionError(self._what_holds_it_up())
            self._replace_lost_copier()
            time.sleep(0.05)

    def _replace_lost_copier(self) -> None:
        """Another owner of the id goes on.

        If the answer to its search for a coordinator is lost, librdkafka's send_offsets_to_transaction waits
        until one of its connections changes, whatever its time limit is.
        """
        if time.monotonic() - self._copiers[-1].noted_at > 1.5 * END_S_MAX:
            self._copiers.append(Copier("copier", self._bootstrap, self._history, self._following))
            self._copiers[-1].start()

    def _what_holds_it_up(self) -> str:
        did = "\n".join(self.journal[-20:])
        missing = sorted(self._missing())
        return f"{time.monotonic():.3f}: not copied: {missing}\n{did}\n{what_is_open(self._bootstrap)}"

    def _missing(self) -> set[str]:
        """Values of whose copies the reader has not been given any yet."""
        source, copied = values_of(self._history, "settled"), values_of(self._history, "live")
        return {
            value
            for index in range(PARTITIONS)
            for value in set(source[place(LEFT, index)]) - set(copied[place(COPIED, index)])
        }


def check_written_by_writers(history: TransactionHistory) -> list[object]:
    """The copier's values are those of the writers, so its topic is looked at by itself."""
    copies = {place(COPIED, index) for index in range(PARTITIONS)}
    seen = [each for each in history.seen if each.partition not in copies]
    return check_transactions(
        TransactionHistory(transactions=history.transactions, seen=seen, complete={"end"})
    )


def check_copies(history: TransactionHistory) -> list[object]:
    values = values_of(history, "end")
    return [
        each
        for index in range(PARTITIONS)
        for each in check_copy(values[place(LEFT, index)], values[place(COPIED, index)])
    ]
