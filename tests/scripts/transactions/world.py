"""A shard of transactions, a clock and a log, driven by one-line commands; see README.md for the commands."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.transactions.limits import TransactionLimits
from penstock.transactions.messages import (
    Answer,
    Effect,
    Identity,
    InitRequest,
    SendMarkers,
    Write,
)
from penstock.transactions.shard import Shard
from penstock.types import ErrorCode
from tests.scripts.runner import duration_ms, partition

if TYPE_CHECKING:
    from penstock.transactions.records import TransactionValue


def shown(value: TransactionValue) -> str:
    where = " ".join(map(str, sorted(value.partitions)))
    return f"{value.state.value} {value.producer_id}/{value.producer_epoch} {where}".rstrip()


class World:
    def __init__(self) -> None:
        self.now_ms = 0
        self.limits = TransactionLimits()
        self.shard = Shard(self.limits)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.writes: deque[Write] = deque()
        self.producers: dict[str, Identity] = {}
        self.tokens: dict[int, tuple[str, str]] = {}
        self.next_id = 1000

    def run(self, command: str) -> list[str]:
        name, *words = command.split()
        return list(getattr(self, f"do_{name}")(*words))

    # Requests

    def token(self, producer: str, transactional_id: str) -> int:
        number = len(self.tokens)
        self.tokens[number] = (producer, transactional_id)
        return number

    def do_init(self, transactional_id: str, *options: str) -> list[str]:
        given = dict(option.split("=") for option in options)
        producer = given.get("as", transactional_id)
        expected = self.producers[given["expect"]] if "expect" in given else Identity("", -1, -1)
        request = InitRequest(
            transactional_id=transactional_id,
            timeout_ms=duration_ms(given.get("timeout", "60s")),
            producer_id=expected.producer_id,
            producer_epoch=expected.producer_epoch,
            fresh_producer_id=self.next_id,
        )
        self.next_id += 1
        return self.show(self.shard.init(self.token(producer, transactional_id), request, self.now_ms))

    def do_add(self, producer: str, *partitions: str) -> list[str]:
        who = self.producers[producer]
        token = self.token(producer, who.transactional_id)
        wanted = frozenset(map(partition, partitions))
        return self.show(self.shard.add_partitions(token, who, wanted, self.now_ms))

    def do_verify(self, producer: str, where: str) -> list[str]:
        return [f"{producer}: {self.shard.verify(self.producers[producer], partition(where)).name}"]

    def do_commit(self, producer: str) -> list[str]:
        return self.end(producer, is_commit=True)

    def do_abort(self, producer: str) -> list[str]:
        return self.end(producer, is_commit=False)

    def end(self, producer: str, *, is_commit: bool) -> list[str]:
        who = self.producers[producer]
        token = self.token(producer, who.transactional_id)
        return self.show(self.shard.end(token, who, is_commit=is_commit, now_ms=self.now_ms))

    # The world

    def do_written(self) -> list[str]:
        write = self.writes.popleft()
        self.log.append(write.record)
        return self.show(self.shard.written(write, ErrorCode.none, self.now_ms))

    def do_failed(self, code: str) -> list[str]:
        return self.show(self.shard.written(self.writes.popleft(), ErrorCode[code], self.now_ms))

    def do_marked(self, transactional_id: str) -> list[str]:
        who = self.shard.transactions[transactional_id].identity
        return self.show(self.shard.marked(who, self.now_ms))

    def do_wait(self, time: str) -> list[str]:
        self.now_ms += duration_ms(time)
        printed = []
        for transaction in list(self.shard.transactions.values()):
            printed += self.show(self.shard.expire(transaction, self.now_ms))
        return printed

    def do_crash(self) -> list[str]:
        self.shard = Shard(self.limits)
        self.writes.clear()
        for key, value in self.log:
            self.shard.replay(key, value)
        return self.show(self.shard.finish_loading())

    def do_show(self) -> list[str]:
        return [
            f"{name} {shown(each.value)}" if each.value else f"{name} -"
            for name, each in sorted(self.shard.transactions.items())
        ]

    def show(self, effects: list[Effect]) -> list[str]:
        printed = []
        for effect in effects:
            if isinstance(effect, Write):
                self.writes.append(effect)
                what = "forgotten" if effect.value is None else shown(effect.value)
                printed.append(f"> {effect.transaction.transactional_id} {what}")
            elif isinstance(effect, SendMarkers):
                who = effect.identity
                outcome = "commit" if effect.is_commit else "abort"
                where = " ".join(map(str, sorted(effect.partitions)))
                printed.append(
                    f"markers {who.transactional_id} {outcome} {who.producer_id}/{who.producer_epoch} {where}"
                )
            else:
                printed.append(self.answered(effect))
        return printed

    def answered(self, answer: Answer) -> str:
        producer, transactional_id = self.tokens[answer.token]
        reply = answer.reply
        if reply.producer_id < 0:
            return f"{producer}: {reply.error.name}"
        self.producers[producer] = Identity(transactional_id, reply.producer_id, reply.producer_epoch)
        return f"{producer}: {reply.error.name} {reply.producer_id}/{reply.producer_epoch}"
