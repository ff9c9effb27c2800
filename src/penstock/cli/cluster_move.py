"""`penstock cluster move`: partitions onto other brokers, by hand.

The cluster does the work: it copies to the new replicas, and drops the old ones when all new ones are in
sync. So the command may end at any time. While it waits it compares the sizes of the new replicas with those
of their leaders. When the cluster lists a move no more, the first of the new replicas is made leader.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from penstock.cli.cluster_move_plan import (
    MIN_INSYNC,
    Minimum,
    Move,
    has_arrived,
    parse_ids,
    plan,
    plan_cancelling,
    rows_of,
)
from penstock.cli.cluster_reassignments import (
    ASK_AGAIN_S,
    SILENCE_S_MAX,
    Failures,
    Reassignments,
    require_all,
)
from penstock.cli.kafka import answer, cluster_metadata, connect, require_partitions
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json, split_partition
from penstock.cli.output import CommandFailed, WrongUsage, confirm, counted, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata

    Tell = Callable[[int], None]
    """Called with the number of bytes that are left, whenever it was looked at."""

SETTLED_S_MAX: Final = 10.0
"""How long the brokers may take to agree that a move has ended, and how."""
LINE_EVERY_S: Final = 5.0
GOES_ON: Final = "the move goes on; the same command, given again, waits for its end, and --cancel undoes it"
HEADER: Final = ("TOPIC", "PARTITION", "LEADER", "REPLICAS", "NEW REPLICAS", "NEW LEADER", "TO COPY", "NOTE")


def move(
    wanted: Annotated[str, typer.Argument(metavar="TOPIC[:PARTITION]", help="What is moved.")],
    to: Annotated[
        str | None,
        typer.Option(metavar="ID[,ID…]", help="The replicas it shall have, preferred leader first."),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="End the moves under way instead.")] = False,
    wait: Annotated[bool, typer.Option(help="Until the move is done; otherwise only begin it.")] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Move partitions to other brokers, while clients go on."""
    topic, number = split_partition(wanted)
    if (to is not None) is cancel:
        raise WrongUsage("either --to or --cancel says what to do")
    target = None if to is None else parse_ids(to)
    admin = connect(bootstrap)
    metadata = cluster_metadata(admin, bootstrap)
    chosen = require_partitions(metadata, topic, number)
    partitions = {index: metadata.topics[topic].partitions[index] for index in chosen}
    reassignments = Reassignments(admin, bootstrap, topic)
    ongoing = reassignments.ongoing(chosen)
    if target is None:
        moves = plan_cancelling(partitions, ongoing)
    else:
        require_known(metadata, target)
        minimum = minimum_of(admin, topic)
        moves = plan(partitions, ongoing, target, reassignments.sizes(chosen), metadata.brokers, minimum)
    if not json:
        show(topic, moves, is_cancelled=cancel)
    failures: Failures = {}
    if moves:
        confirm(question(moves, is_cancelled=cancel), yes=yes, json=json)
        moving = {each.partition: each.target if to else None for each in moves if not each.is_there}
        failures = reassignments.alter(moving) if moving else {}
        begun = [each for each in moves if each.partition not in failures]
        finished = {each.partition: each for each in begun if wait or each.is_there}
        if to and finished:
            failures |= finish(Watch(admin, bootstrap, topic, reassignments, finished), shown=not json)
    if json:
        told = [each.as_json(failures.get(each.partition)) for each in moves]
        print_json({"topic": topic, "waited": bool(to and wait), "partitions": told})
    elif moves:
        report(topic, len(moves) - len(failures), is_cancelled=cancel, goes_on=bool(moving) and not wait)
    require_all(topic, failures)


def minimum_of(admin: AdminClient, topic: str) -> Minimum:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    entry = answer(future)[MIN_INSYNC]
    return Minimum(int(entry.value), entry.source == ConfigSource.DEFAULT_CONFIG.value)


def require_known(metadata: ClusterMetadata, target: tuple[int, ...]) -> None:
    """Of a broker that is down clients hear through its replicas alone."""
    holders = {
        broker
        for topic in metadata.topics.values()
        for partition in topic.partitions.values()
        for broker in partition.replicas
    }
    for broker in target:
        if broker not in metadata.brokers and broker not in holders:
            raise CommandFailed(f"no broker {broker} is running or holds a replica")


def show(topic: str, moves: list[Move], *, is_cancelled: bool) -> None:
    if moves:
        print_table(HEADER, rows_of(topic, moves))
    elif is_cancelled:
        print(f"topic {topic}: none of these partitions is being moved")
    else:
        print(f"topic {topic}: these partitions are there already")


def question(moves: list[Move], *, is_cancelled: bool) -> str:
    what = counted(len(moves), "partition")
    return f"Cancel the moves of {what}?" if is_cancelled else f"Move {what}?"


def report(topic: str, count: int, *, is_cancelled: bool, goes_on: bool) -> None:
    what = f"{counted(count, 'partition')} of {topic}"
    if not count:
        return
    if is_cancelled:
        print(f"{what}: the move was cancelled")
    elif goes_on:
        print(GOES_ON)
    else:
        print(f"{what} moved")


def finish(watch: Watch, *, shown: bool) -> Failures:
    """Wait for the end of all moves, then have the first replicas lead."""
    try:
        with progress(watch.bytes_left, shown=shown) as tell:
            while not watch.step():
                tell(watch.bytes_left)
                time.sleep(ASK_AGAIN_S)
            tell(0)
        return watch.failures | watch.elect()
    except KeyboardInterrupt as interrupt:
        raise CommandFailed(GOES_ON) from interrupt


@contextmanager
def progress(total: int, *, shown: bool) -> Iterator[Tell]:
    """A bar on a terminal, elsewhere a line every few seconds."""
    if not shown:
        yield lambda _left: None
    elif sys.stdout.isatty():
        with typer.progressbar(length=max(1, total), label=f"copying {counted(total, 'byte')}") as bar:
            yield lambda left: bar.update(max(0, bar.length - left - bar.pos) if bar.length else 0)
    else:
        told_at = -LINE_EVERY_S

        def tell(left: int) -> None:
            nonlocal told_at
            if left and time.monotonic() - told_at >= LINE_EVERY_S:
                told_at = time.monotonic()
                print(f"{counted(left, 'byte')} left to copy", flush=True)

        yield tell


class Watch:
    """Moves under way, until each has ended."""

    def __init__(
        self,
        admin: AdminClient,
        bootstrap: str,
        topic: str,
        reassignments: Reassignments,
        moves: Mapping[int, Move],
    ) -> None:
        self.failures: Failures = {}
        self.bytes_left = sum(each.size_bytes for each in moves.values())
        """To copy, when it was last looked at."""
        self._admin = admin
        self._bootstrap = bootstrap
        self._topic = topic
        self._reassignments = reassignments
        self._moves = moves
        self._left = dict(moves)
        self._agreed_at = dict.fromkeys(moves, time.monotonic())
        """When a partition was last seen on its way, or was about to be."""
        self._heard_at = time.monotonic()

    def step(self) -> bool:
        """Look once; whether all have ended."""
        try:
            ongoing = self._reassignments.ongoing(self._left)
            partitions = self._partitions()
            sizes = self._reassignments.sizes(self._left)
        except CommandFailed:
            if time.monotonic() - self._heard_at >= SILENCE_S_MAX:
                raise
            return False
        self._heard_at = time.monotonic()
        for index, move in list(self._left.items()):
            listed = ongoing.get(index)
            found = partitions.get(index)
            if listed is not None and set(listed.target) == set(move.target):
                self._agreed_at[index] = self._heard_at
            elif listed is None and found is not None and has_arrived(found, move):
                del self._left[index]
            elif self._heard_at - self._agreed_at[index] >= SETTLED_S_MAX:
                self._ended(move, found)
        self.bytes_left = sum(
            move.bytes_left(sizes, partitions[index].leader)
            for index, move in self._left.items()
            if index in partitions
        )
        return not self._left

    def elect(self) -> Failures:
        """The first of the new replicas, where another one leads."""
        partitions = self._partitions()
        others = [
            index
            for index, move in self._moves.items()
            if index not in self.failures
            and index in partitions
            and partitions[index].leader != move.target[0]
        ]
        failures = self._reassignments.elect_preferred(others)
        return {
            index: f"moved, but broker {self._moves[index].target[0]} does not lead: {why}"
            for index, why in failures.items()
        }

    def _ended(self, move: Move, found: Any) -> None:
        """Not listed any more, or as another move: with the wanted replicas it is done all the same."""
        del self._left[move.partition]
        replicas = () if found is None else tuple(found.replicas)
        if replicas != move.target:
            held = ",".join(map(str, replicas)) or "gone"
            self.failures[move.partition] = f"another request has changed the move; its replicas are {held}"

    def _partitions(self) -> dict[int, Any]:
        topic: Any = cluster_metadata(self._admin, self._bootstrap).topics.get(self._topic)
        return {} if topic is None else topic.partitions
