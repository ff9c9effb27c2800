"""What was fetched and not delivered yet, and what of it comes next.

Order holds within a partition. Topics take turns, and within a topic its partitions do, so that one with much
to say does not keep the others waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from penstock.client.pubsub.messages import Partition

T = TypeVar("T")


class Lost(NamedTuple):
    """In place of messages that are no longer there: from offset `first` on, before `next`."""

    first: int
    next: int


class Skipped(NamedTuple):
    """In place of batches that nobody can read and that were passed over: goes on with offset `next`."""

    next: int


class Inbox(Generic[T]):
    def __init__(self) -> None:
        self._items: dict[Partition, deque[T]] = {}
        self._turns: deque[str] = deque()
        """Topics that have something, the next one first."""
        self._topics: dict[str, deque[int]] = {}
        """Of each of them, the partitions that have something, the next one first."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, partition: Partition, item: T) -> None:
        if partition not in self._items:
            self._enter(partition)
        self._items[partition].append(item)
        self._size += 1

    def peek(self) -> tuple[Partition, T] | None:
        """What `take` would return."""
        if not self._turns:
            return None
        topic = self._turns[0]
        partition = (topic, self._topics[topic][0])
        return partition, self._items[partition][0]

    def take(self) -> tuple[Partition, T]:
        found = self.peek()
        if found is None:
            raise LookupError("the inbox is empty")
        (topic, index), _ = partition, _ = found
        self._items[partition].popleft()
        self._size -= 1
        self._turns.rotate(-1)
        self._topics[topic].rotate(-1)
        if not self._items[partition]:
            self._leave((topic, index))
        return found

    def put_back(self, taken: Sequence[tuple[Partition, T]]) -> None:
        """They come again before everything else of their partitions."""
        for partition, item in reversed(taken):
            if partition not in self._items:
                self._enter(partition)
            self._items[partition].appendleft(item)
            self._size += 1
            self._come_first(partition)

    def drop(self, unwanted: Callable[[Partition, T], bool]) -> None:
        for partition, items in list(self._items.items()):
            kept = deque(item for item in items if not unwanted(partition, item))
            self._size -= len(items) - len(kept)
            self._items[partition] = kept
            if not kept:
                self._leave(partition)

    def _enter(self, partition: Partition) -> None:
        topic, index = partition
        self._items[partition] = deque()
        if topic not in self._topics:
            self._topics[topic] = deque()
            self._turns.append(topic)
        self._topics[topic].append(index)

    def _come_first(self, partition: Partition) -> None:
        topic, index = partition
        self._turns.remove(topic)
        self._turns.appendleft(topic)
        self._topics[topic].remove(index)
        self._topics[topic].appendleft(index)

    def _leave(self, partition: Partition) -> None:
        topic, index = partition
        del self._items[partition]
        self._topics[topic].remove(index)
        if not self._topics[topic]:
            del self._topics[topic]
            self._turns.remove(topic)
