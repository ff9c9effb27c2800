"""A shard of groups, a clock and a log, driven by one-line commands; see README.md for the commands."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import NamedTuple

from penstock.groups import records
from penstock.groups.limits import GroupLimits
from penstock.groups.messages import (
    Answer,
    CommitRequest,
    Effect,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    OffsetsReply,
    Producer,
    SyncReply,
    SyncRequest,
    Write,
)
from penstock.groups.offsets import CommittedOffset
from penstock.groups.shard import Shard
from penstock.types import ErrorCode
from tests.scripts.runner import Command, duration_ms, partition


@dataclasses.dataclass
class Client:
    """What a real client would remember of its answers."""

    member_id: str = ""
    instance: str | None = None
    generation_id: int = -1
    protocols: str = "range:t"


def subscription(topics: str) -> bytes:
    """Consumer protocol metadata of version 0; `!x` stands for metadata that is something else."""
    if topics.startswith("!"):
        return topics.encode()
    names = [topic.encode() for topic in topics.split("+") if topic]
    encoded = b"".join(len(name).to_bytes(2) + name for name in names)
    return b"\x00\x00" + len(names).to_bytes(4) + encoded + b"\xff\xff\xff\xff"


class LogRecord(NamedTuple):
    key: bytes | None
    """None in the marker of a transaction, which has no value if it aborts."""
    value: bytes | None
    producer_id: int | None = None


class World:
    def __init__(self) -> None:
        self.limits = GroupLimits(initial_rebalance_delay_ms=0)
        self.now_ms = 0
        self.shard = Shard(self.limits)
        self.log: list[LogRecord] = []
        self.queue: deque[Write] = deque()
        self.writes = "go"
        self.clients: dict[str, Client] = {}
        self.tokens: dict[int, str] = {}
        self.answered: set[int] = set()
        self.fresh = 0
        self.lines: list[str] = []

    def run(self, command: str) -> list[str]:
        self.lines = []
        before = self._states()
        parsed = Command.parse(command)
        getattr(self, parsed.method)(parsed.words, parsed.options)
        after = self._states()
        for group_id in sorted(before.keys() | after.keys()):
            old, new = before.get(group_id, "(none)"), after.get(group_id, "(none)")
            if old != new:
                self.lines.append(f"{group_id}: {old} => {new}")
        return self.lines or ["ok"]

    def _states(self) -> dict[str, str]:
        return {
            group.group_id: f"{group.state.value} generation {group.generation_id}"
            for group in self.shard.groups.values()
        }

    # Effects

    def _token(self, label: str) -> int:
        self.tokens[len(self.tokens) + 1] = label
        return len(self.tokens)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.token not in self.answered, "answered twice"
                self.answered.add(effect.token)
                self._learn(self.tokens[effect.token], effect.reply)
                self.lines.append(f"{self.tokens[effect.token]} <- {show(effect.reply)}")
            else:
                self.queue.append(effect)
        self._flush()

    def _flush(self) -> None:
        while self.queue and self.writes != "hold":
            write = self.queue.popleft()
            error = ErrorCode.none if self.writes == "go" else ErrorCode[self.writes]
            if error is ErrorCode.none:
                producer_id = write.producer and write.producer.id
                self.log += [LogRecord(*record, producer_id) for record in write.records]
                self.lines += [f"log: {show_record(key, value)}" for key, value in write.records]
            else:
                self.lines.append(f"log: refused with {error.name}")
            self._carry_out(self.shard.written(write, error, self.now_ms))

    def _learn(self, label: str, reply: object) -> None:
        name = label.partition(" ")[2]
        client = self.clients.get(name)
        if client is None:
            return
        if isinstance(reply, JoinReply):
            if reply.error in (ErrorCode.none, ErrorCode.member_id_required):
                client.member_id, client.generation_id = reply.member_id, reply.generation_id
            elif reply.error is ErrorCode.unknown_member_id:
                client.member_id = ""

    # Commands

    def do_limits(self, plain: list[str], options: dict[str, str]) -> None:
        values = {
            name: int(value) if value.isdigit() else duration_ms(value) for name, value in options.items()
        }
        self.limits = dataclasses.replace(self.limits, **values)
        for owner in (self.shard, *self.shard.groups.values()):
            owner.limits = self.limits

    def do_join(self, plain: list[str], options: dict[str, str]) -> None:
        client = self.clients.setdefault(plain[0], Client())
        client.instance = options.get("instance", client.instance)
        client.protocols = options.get("protocols", client.protocols)
        member_id = options.get("member", client.member_id)
        self.fresh += 1
        version = int(options.get("version", "9"))
        request = JoinRequest(
            member_id="" if member_id == "-" else member_id,
            group_instance_id=client.instance,
            client_id=plain[0],
            client_host="host",
            session_timeout_ms=duration_ms(options.get("session", "10s")),
            rebalance_timeout_ms=duration_ms(options.get("rebalance", "60s")),
            protocol_type=options.get("type", "consumer"),
            protocols=tuple(
                (one.split(":")[0], subscription(one.partition(":")[2]))
                for one in client.protocols.split(",")
                if one
            ),
            requires_known_member_id=version >= 4,
            supports_skipping_assignment=version >= 9,
            fresh_member_id=f"{plain[0]}#{self.fresh}",
        )
        token = self._token(f"join {plain[0]}")
        self._carry_out(self.shard.join(options.get("group", "g"), token, request, self.now_ms))

    def do_sync(self, plain: list[str], options: dict[str, str]) -> None:
        client = self.clients[plain[0]]
        request = SyncRequest(
            member_id=options.pop("member", client.member_id),
            group_instance_id=client.instance,
            generation_id=int(options.pop("generation", client.generation_id)),
            protocol_type=options.pop("type", "consumer"),
            protocol_name=options.pop("protocol", None),
            assignments={
                self.clients[name].member_id: assigned.encode() for name, assigned in options.items()
            },
        )
        token = self._token(f"sync {plain[0]}")
        self._carry_out(self.shard.sync("g", token, request, self.now_ms))

    def do_heartbeat(self, plain: list[str], options: dict[str, str]) -> None:
        for name in plain:
            client = self.clients[name]
            error = self.shard.heartbeat(
                "g",
                options.get("member", client.member_id),
                client.instance,
                int(options.get("generation", client.generation_id)),
                self.now_ms,
            )
            self.lines.append(f"heartbeat {name} <- {error.name}")

    def do_leave(self, plain: list[str], options: dict[str, str]) -> None:
        leaving = [LeavingMember(self.clients[name].member_id, self.clients[name].instance) for name in plain]
        if "instance" in options:
            leaving.append(LeavingMember("", options["instance"]))
        token = self._token("leave " + " ".join(plain or [options["instance"]]))
        self._carry_out(self.shard.leave("g", token, leaving, self.now_ms))

    def do_commit(self, plain: list[str], options: dict[str, str]) -> None:
        client = self.clients.get(plain[0], Client())
        group_id = options.pop("group", "g")
        metadata = options.pop("metadata", "")
        retention = options.pop("retention", None)
        producer_id = options.pop("transaction", None)
        generation_id = int(options.pop("generation", client.generation_id))
        request = CommitRequest(
            member_id=options.pop("member", client.member_id),
            group_instance_id=client.instance,
            generation_id=generation_id,
            offsets={
                partition(name): CommittedOffset(
                    offset=int(offset),
                    leader_epoch=2,
                    metadata=metadata,
                    commit_timestamp_ms=self.now_ms,
                    expire_timestamp_ms=None if retention is None else self.now_ms + duration_ms(retention),
                )
                for name, offset in options.items()
            },
            producer=None if producer_id is None else Producer(int(producer_id), 0),
        )
        token = self._token(f"commit {plain[0]}")
        self._carry_out(self.shard.commit(group_id, token, request, self.now_ms))

    def do_end(self, plain: list[str], options: dict[str, str]) -> None:
        """The marker of a transaction is written."""
        producer_id, is_commit = int(plain[0]), plain[1] == "commit"
        self.log.append(LogRecord(None, b"" if is_commit else None, producer_id))
        self.shard.transaction_ended(producer_id, is_commit=is_commit)

    def do_compact(self, plain: list[str], options: dict[str, str]) -> None:
        """Of each key the last record stays that was not aborted. Every transaction must have ended."""
        kept: dict[object, LogRecord] = {}
        aborted: set[int | None] = set()
        for position, record in reversed(list(enumerate(self.log))):
            if record.key is None:
                (aborted.add if record.value is None else aborted.discard)(record.producer_id)
                kept[position] = record
            elif record.producer_id is None or record.producer_id not in aborted:
                kept.setdefault(record.key, record)
        self.log = list(kept.values())[::-1]

    def do_offsets(self, plain: list[str], options: dict[str, str]) -> None:
        group = self.shard.groups.get(plain[0] if plain else "g")
        committed = {} if group is None else group.offsets.committed
        for where, offset in sorted(committed.items()):
            unstable = " unstable" if group.offsets.is_unstable(where) else ""
            self.lines.append(
                f"{where} {offset.offset} epoch {offset.leader_epoch} {offset.metadata!r}{unstable}"
            )

    def do_delete_offsets(self, plain: list[str], options: dict[str, str]) -> None:
        token = self._token("delete-offsets")
        self._carry_out(self.shard.delete_offsets("g", token, [partition(name) for name in plain]))

    def do_delete_group(self, plain: list[str], options: dict[str, str]) -> None:
        self._carry_out(self.shard.delete_group(plain[0], self._token(f"delete-group {plain[0]}")))

    def do_delete_topic(self, plain: list[str], options: dict[str, str]) -> None:
        self._carry_out(self.shard.forget_topics(frozenset(plain)))

    def do_expire_offsets(self, plain: list[str], options: dict[str, str]) -> None:
        self._carry_out(self.shard.expire_offsets(self.now_ms))

    def do_advance(self, plain: list[str], options: dict[str, str]) -> None:
        """Time passes; every deadline on the way is kept to the millisecond."""
        end_ms = self.now_ms + duration_ms(plain[0])
        while True:
            deadlines = [(group.next_deadline(), group) for group in self.shard.groups.values()]
            due = [(at_ms, group) for at_ms, group in deadlines if at_ms is not None and at_ms <= end_ms]
            if not due:
                break
            at_ms, group = min(due, key=lambda one: one[0])
            self.now_ms = max(at_ms, self.now_ms)
            count = len(self.lines)
            self._carry_out(self.shard.expire(group, self.now_ms))
            if len(self.lines) > count:
                self.lines.insert(count, f"at {self.now_ms} ms:")
        self.now_ms = end_ms

    def do_writes(self, plain: list[str], options: dict[str, str]) -> None:
        self.writes = plain[0]
        self._flush()

    def do_restart(self, plain: list[str], options: dict[str, str]) -> None:
        """The coordinator crashes and another loads what is in the log."""
        self.queue.clear()
        self.shard = Shard(self.limits)
        for key, value, producer_id in self.log:
            if key is not None:
                self.shard.replay(key, value, self.now_ms, producer_id)
            elif producer_id is not None:
                self.shard.transaction_ended(producer_id, is_commit=value is not None)
        self._carry_out(self.shard.finish_loading(self.now_ms))

    def do_group(self, plain: list[str], options: dict[str, str]) -> None:
        group = self.shard.groups[plain[0] if plain else "g"]
        self.lines.append(
            f"{group.state.value} generation {group.generation_id} protocol {group.protocol_name} "
            f"leader {group.roster.leader_id} pending {sorted(group.sessions.pending)}"
        )
        for member in group.roster:
            static = f" instance {member.group_instance_id}" if member.group_instance_id else ""
            self.lines.append(f"  {member.member_id}{static} has {member.assignment.decode()!r}")


def show(reply: object) -> str:
    if isinstance(reply, LeaveReply):
        return f"{reply.error.name} [{' '.join(error.name for error in reply.members)}]"
    if isinstance(reply, OffsetsReply):
        each = " ".join(f"{where}:{error.name}" for where, error in sorted(reply.partitions.items()))
        return f"{reply.error.name} [{each}]"
    error = reply.error.name
    if isinstance(reply, JoinReply):
        if reply.error is not ErrorCode.none:
            return f"{error} member {reply.member_id or '-'}"
        members = " ".join(one.member_id for one in reply.members)
        return (
            f"generation {reply.generation_id} {reply.protocol_name} member {reply.member_id} "
            f"leader {reply.leader} [{members}]" + (" skip assignment" if reply.skip_assignment else "")
        )
    if isinstance(reply, SyncReply) and reply.error is ErrorCode.none:
        return f"{reply.protocol_name} {reply.assignment.decode()!r}"
    return error


def show_record(key: bytes, value: bytes | None) -> str:
    decoded = records.decode_key(key)
    if isinstance(decoded, records.OffsetCommitKey):
        name = f"offset {decoded.group_id} {decoded.topic}-{decoded.partition}"
        return (
            f"{name} tombstone" if value is None else f"{name} = {records.decode_offset_value(value).offset}"
        )
    if value is None:
        return f"group {decoded.group_id} tombstone"
    group = records.decode_group_value(value)
    members = " ".join(f"{one.member_id}:{one.assignment.decode()!r}" for one in group.members)
    return f"group {decoded.group_id} generation {group.generation_id} [{members}]"
