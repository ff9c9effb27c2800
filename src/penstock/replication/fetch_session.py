"""Incremental fetches between nodes (KIP-227): of many partitions only those travel of which there is news.

A follower begins with all that it wants (epoch 0) and is given the id of a session. From then on it sends
only what it wants otherwise than before, and what it wants no more, and the leader answers only for
partitions of which it has something to say. A partition of which neither says anything is fetched all the
same, from where it was: each request of a session stands for the full one.

A session ends with its connection: then either side may have missed the other's last word. The epoch counts
requests, so that a side that lost count is found out; then the follower begins anew with everything.

A partition of which the leader says that it does not lead it, or not for this replica, is out of the session
with that answer, until the follower sends it again: nobody can make a leader remember what it does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch

NO_SESSION: Final = 0
"""The id in a fetch outside of any session, and in the answer to one."""
WITHOUT_SESSION: Final = -1
"""The epoch of a full fetch that begins no session; any that there was ends."""
BEGIN: Final = 0
"""The epoch of a full fetch that begins a session, in the place of any that there was."""
ID_MAX: Final = 2**31 - 1
EPOCH_MAX: Final = 2**31 - 1
SESSION_PARTITIONS_MAX: Final = 100_000
"""Of one session: many small requests could add up to any number."""

NOT_HERE: Final = (ErrorCode.unknown_topic_id, ErrorCode.not_leader_or_follower)
"""With which a partition is put out of the session."""

Key = tuple[UUID, int]
"""A partition by the id of its topic: of a topic that was created again it is another one."""


class SessionRequest(NamedTuple):
    session_id: int
    epoch: int
    fetches: Mapping[Key, ReplicaFetch]
    forgotten: tuple[Key, ...] = ()

    @property
    def is_full(self) -> bool:
        return self.epoch in (BEGIN, WITHOUT_SESSION)


def epoch_after(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1


class FollowerSession:
    """What a follower wants of one leader, and how much of it the leader knows."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = BEGIN
        self._sent: dict[Key, ReplicaFetch] = {}
        self._changed: dict[Key, ReplicaFetch] = {}
        self._gone: dict[Key, None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is wanted, and the leader knows."""
        wanted = len(self._sent) - (len(self._gone) if self._id == NO_SESSION else 0)
        return not self._changed and not wanted

    def want(self, key: Key, fetch: ReplicaFetch) -> None:
        self._gone.pop(key, None)
        if self._sent.get(key) != fetch:
            self._changed[key] = fetch
        else:
            self._changed.pop(key, None)

    def forget(self, key: Key) -> None:
        self._changed.pop(key, None)
        if key in self._sent:
            self._gone[key] = None

    def request(self) -> SessionRequest:
        """The next one. It is followed by `answered`, or by `lost` if no answer comes."""
        changed, gone = self._changed, self._gone
        self._changed, self._gone = {}, {}
        self._sent.update(changed)
        for key in gone:
            del self._sent[key]
        if self._id == NO_SESSION:
            return SessionRequest(NO_SESSION, BEGIN, dict(self._sent))
        return SessionRequest(self._id, self._epoch, changed, tuple(gone))

    def answered(self, error: ErrorCode, session_id: int) -> bool:
        """Whether what was answered stands; if not, the next request is a full one."""
        if error is not ErrorCode.none:
            self.lost()
            return False
        if self._id not in (NO_SESSION, session_id):
            self.lost()  # the leader has ended it with this answer
        else:
            self._id = session_id
            self._epoch = epoch_after(self._epoch) if session_id != NO_SESSION else BEGIN
        return True

    def refused(self, key: Key, error: ErrorCode) -> None:
        """What a partition was answered with; after some errors the leader does not know it any more."""
        if error in NOT_HERE:
            self._sent.pop(key, None)

    def lost(self) -> None:
        self._id, self._epoch = NO_SESSION, BEGIN


class _Told(NamedTuple):
    """What a follower knows of a partition for which nothing is said to it."""

    leader_epoch: int
    high_watermark: int
    log_start_offset: int


class LeaderSession:
    """What a follower wants of this leader, and what it was told."""

    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.fetches: dict[Key, ReplicaFetch] = {}
        self._epoch = BEGIN
        self._told: dict[Key, _Told] = {}

    def maybe_refuse(self, request: SessionRequest) -> ErrorCode | None:
        """Why a request neither begins this session nor goes on with it."""
        if not request.is_full:
            if request.session_id != self.id:
                return ErrorCode.fetch_session_id_not_found
            if request.epoch != epoch_after(self._epoch):
                return ErrorCode.invalid_fetch_session_epoch
        if len(self.fetches) + len(request.fetches) > SESSION_PARTITIONS_MAX:
            wanted = (self.fetches.keys() - set(request.forgotten)) | request.fetches.keys()
            return ErrorCode.invalid_request if len(wanted) > SESSION_PARTITIONS_MAX else None
        return None

    def update(self, request: SessionRequest) -> None:
        """Take over what a request says that is not refused."""
        self._epoch = request.epoch
        for key in request.forgotten:
            self.fetches.pop(key, None)
            self._told.pop(key, None)
        for key, fetch in request.fetches.items():
            before = self.fetches.get(key)
            if before is not None and fetch.offset < before.offset:
                self._told.pop(key, None)  # its log was cut: what it made of our words may be gone, too
            self.fetches[key] = fetch

    def is_news(self, key: Key, leader_epoch: int, answer: ReplicaAnswer) -> bool:
        """Whether a partition's answer must be sent; if it is, then it is told."""
        if answer.error is not ErrorCode.none or answer.diverging is not None:
            self._told.pop(key, None)  # the follower does not make use of the rest
            if answer.error in NOT_HERE:
                del self.fetches[key]
            return True
        news = _Told(leader_epoch, answer.high_watermark, answer.log_start_offset)
        if not answer.has_records and self._told.get(key) == news:
            return False
        self._told[key] = news
        return True
