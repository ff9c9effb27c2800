"""A subscriber process that can be killed at any moment and goes on where it was: `python -m` with a Task.

Its style is what it asks of the library:

- `positions` keeps each message and the position after it as one record, and begins after the last record;
- `get` keeps what `get` returned: what was got is never got again, and a crash may come before it is kept;
- `receive` keeps the message before it is settled: nothing is lost, and the last one may come again;
- `copy` puts each message into the topic COPIES in the same transaction, and sometimes changes its mind.
"""

from __future__ import annotations

import random
import sys
import time

from penstock import Message, Subscriber, SubscriberFencedError
from tests.support.publish_subscribe.journal import Journal, Record, read_journals
from tests.support.publish_subscribe.task import FENCED, Task, insist

COPIES = "copies"
GET_S_MAX = 1.0
SEVERAL = 4
MIND_CHANGES = 0.1


class ChangedItsMind(Exception):  # noqa: N818
    """A reason to abort."""


class SubscriberProcess:
    def __init__(self, task: Task) -> None:
        self._task = task
        before = read_journals(task.place)
        self._journal = Journal(task.place, task.life)
        self._chance: random.Random = task.chance
        positions = None
        if task.style == "positions":
            got = (each for each in before.records if each["kind"] == "got")
            positions = {(each["topic"], each["partition"]): each["position"] for each in got}
        self._subscriber = insist(
            self._journal, lambda: Subscriber(task.name, broker=task.bootstrap, positions=positions)
        )

    def run(self) -> None:
        for topic in self._task.topics:
            self._subscribe(topic)
        step = getattr(self, f"_{self._task.style}")
        while insist(self._journal, step) or not self._task.is_stopping:
            pass
        insist(self._journal, self._subscriber.close)

    def _subscribe(self, topic: str) -> None:
        self._journal.append({"kind": "subscribing", "topic": topic, "at": time.monotonic()})
        insist(self._journal, lambda: self._subscriber.subscribe(topic))
        self._journal.append({"kind": "subscribed", "topic": topic, "at": time.monotonic()})

    # Each does one step, and says whether there was a message

    def _positions(self) -> bool:
        if self._chance.random() < 0.5:
            message = self._subscriber.get(timeout=GET_S_MAX)
            messages = [] if message is None else [message]
        else:
            messages = self._subscriber.get_many(SEVERAL, timeout=GET_S_MAX)
        for each in messages:
            self._keep(each)
        return bool(messages)

    def _get(self) -> bool:
        message = self._subscriber.get(timeout=GET_S_MAX)
        if message is not None:
            self._keep(message)
        return message is not None

    def _receive(self) -> bool:
        with self._subscriber.receive(timeout=GET_S_MAX) as message:
            if message is not None:
                self._keep(message)
            return message is not None

    def _copy(self) -> bool:
        try:
            with self._subscriber.transaction() as transaction:
                message = transaction.get(timeout=GET_S_MAX)
                if message is None:
                    return False
                transaction.put(COPIES, message.value)
                if self._chance.random() < MIND_CHANGES:
                    raise ChangedItsMind
        except ChangedItsMind:
            return True
        self._journal.append({"kind": "copied"})
        return True

    def _keep(self, message: Message) -> None:
        record: Record = {
            "kind": "got",
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "publisher": message.publisher,
            "seq": message.seq,
            "value": message.text,
            "position": message.position,
        }
        self._journal.append(record, durable=True)


def main() -> int:
    try:
        SubscriberProcess(Task.of_this_process()).run()
    except SubscriberFencedError as error:
        print(f"fenced: {error}", file=sys.stderr)
        return FENCED
    return 0


if __name__ == "__main__":
    sys.exit(main())
