"""Which brokers have been heard of lately. Pure; it decides when to fence one, never what is safe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Session:
    broker_epoch: int
    heard_at_ms: int


class BrokerSessions:
    def __init__(self, session_ms: int) -> None:
        self._session_ms = session_ms
        self._sessions: dict[int, Session] = {}

    def begin(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """From now on, whoever took the place before."""
        self._sessions[broker_id] = Session(broker_epoch, now_ms)

    def heard(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        session = self._sessions.get(broker_id)
        if session is None or broker_epoch >= session.broker_epoch:
            self._sessions[broker_id] = Session(broker_epoch, now_ms)

    def heard_since(self, broker_id: int, since_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.heard_at_ms > since_ms

    def forgive(self, late_ms: int) -> None:
        """We did not listen for so long; nobody's silence in that time counts."""
        for session in self._sessions.values():
            session.heard_at_ms += late_ms

    def end(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_alive(self, broker_id: int, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms - session.heard_at_ms < self._session_ms

    def silent_ms(self, broker_id: int, now_ms: int) -> int:
        """For how long nothing was heard of it; 0 without a session."""
        session = self._sessions.get(broker_id)
        return 0 if session is None else now_ms - session.heard_at_ms

    def silent(self, now_ms: int) -> list[int]:
        return [broker_id for broker_id in self._sessions if not self.is_alive(broker_id, now_ms)]
