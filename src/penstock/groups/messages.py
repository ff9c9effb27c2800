"""What goes into the core and what comes out, as data.

A request that is answered later carries a token; the answer names it. A `Write` is a set of records that
must be committed before its consequences are shown: the driver writes them, in the order it got them, and
reports back with `Shard.written`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.types import ErrorCode, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.groups.group import Group
    from penstock.groups.member import Protocols
    from penstock.groups.offsets import CommittedOffset

KeyValue = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool = True
    """From JoinGroup 4 on a dynamic member first gets its id and joins with it in a second request."""
    supports_skipping_assignment: bool = True
    """From JoinGroup 9 on a returning static leader can be told that nothing needs to be assigned."""
    fresh_member_id: str
    """The id to give to the member if it needs one."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    error: ErrorCode = ErrorCode.none
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    member_id: str
    group_instance_id: str | None = None
    generation_id: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveReply:
    error: ErrorCode = ErrorCode.none
    members: tuple[ErrorCode, ...] = ()
    """One for each member that was to leave, in the request's order."""


class Producer(NamedTuple):
    """Of a transaction."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    member_id: str = ""
    group_instance_id: str | None = None
    generation_id: int = -1
    offsets: Mapping[TopicPartition, CommittedOffset]
    producer: Producer | None = None
    """Set: the offsets count once this producer's transaction is committed."""


@dataclass(frozen=True, slots=True)
class OffsetsReply:
    """The outcome of OffsetCommit and OffsetDelete; `error` is the group's and stands for all."""

    error: ErrorCode = ErrorCode.none
    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteReply:
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class MarkerReply:
    error: ErrorCode = ErrorCode.none


Reply = JoinReply | SyncReply | LeaveReply | OffsetsReply | DeleteReply | MarkerReply


@dataclass(frozen=True, slots=True)
class Answer:
    token: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Assigned:
    """The leader's assignment of a generation: the group is stable once it is written."""

    generation_id: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Rejoined:
    """A static member's new id; then its JoinGroup is answered."""

    token: int
    reply: JoinReply


@dataclass(frozen=True, slots=True)
class Emptied:
    """The last member went. Nobody waits for this to be written."""


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    token: int
    offsets: Mapping[TopicPartition, CommittedOffset]
    reply: OffsetsReply


@dataclass(frozen=True, slots=True)
class OffsetsPrepared:
    """In a transaction that is open."""

    token: int
    producer_id: int
    offsets: Mapping[TopicPartition, CommittedOffset]
    reply: OffsetsReply


@dataclass(frozen=True, slots=True)
class OffsetsRemoved:
    partitions: tuple[TopicPartition, ...]
    token: int | None = None
    reply: OffsetsReply = field(default_factory=OffsetsReply)


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    token: int | None = None


Purpose = Assigned | Rejoined | Emptied | OffsetsCommitted | OffsetsPrepared | OffsetsRemoved | GroupDeleted


@dataclass(frozen=True, slots=True)
class Write:
    group: Group
    records: tuple[KeyValue, ...]
    purpose: Purpose
    producer: Producer | None = None
    """Set: the records belong to its transaction, in a batch of their own."""


@dataclass(frozen=True, slots=True)
class WriteMarker:
    """The end of a producer's transaction, for all groups. Written in turn, like what it ends."""

    token: int
    producer: Producer
    is_commit: bool
    coordinator_epoch: int


Effect = Answer | Write | WriteMarker
