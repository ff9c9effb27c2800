"""A connection on a transport without a network: order of answers, back-pressure, memory."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.broker.connection import Connection
from penstock.broker.memory import MemoryBudget
from penstock.broker.metrics import Metrics
from penstock.broker.reply import Deferred, Reply
from penstock.config import Limits
from penstock.wire.frames import SCRATCH_SIZE, FramePool
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.unsent = 0
        self.reading = True
        self.ended = ""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 1234) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def writelines(self, list_of_data: Any) -> None:
        self.sent.append(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


class FakeWaiting:
    def __init__(self, work: Coroutine[Any, Any, Reply]) -> None:
        self._work = work

    async def reply(self) -> Reply:
        return await self._work

    def close(self) -> None:
        self._work.close()


class Peer:
    """One connection and the client's side of it. `answers` says what each request comes to."""

    def __init__(self, dispatch: Callable[[bytes], Any], **limits: int) -> None:
        self.server = SimpleNamespace(
            loop=asyncio.get_running_loop(),
            limits=Limits(**limits),
            metrics=Metrics(),
            memory=MemoryBudget(limits.get("total_bytes_max", Limits().total_bytes_max)),
            scratch=memoryview(bytearray(SCRATCH_SIZE)),
            pool=FramePool(2),
            router=SimpleNamespace(dispatch=lambda frame, _host: dispatch(bytes(frame))),
            refusal=lambda _connection: None,
            is_on_trial=lambda _connection: False,
            forget=lambda _connection: None,
        )
        self.transport = FakeTransport()
        self.connection = Connection(self.server)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)

    def send(self, *bodies: bytes) -> None:
        data = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
        self.send_raw(data)

    def send_raw(self, data: bytes) -> None:
        while data:
            buffer = self.connection.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            self.connection.buffer_updated(size)

    @property
    def received(self) -> bytes:
        return b"".join(self.transport.sent)


def reply(data: bytes) -> Reply:
    return Reply((data,))


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_deferred_answers_leave_in_the_order_of_the_requests() -> None:
    async def scenario() -> None:
        pending: dict[bytes, Deferred[Reply]] = {}

        def dispatch(frame: bytes) -> Any:
            if frame.startswith(b"p"):
                pending[frame] = Deferred()
                return pending[frame]
            return reply(frame)

        peer = Peer(dispatch)
        peer.send(b"p1", b"p2", b"x3", b"p4")
        assert peer.received == b""
        pending[b"p2"].resolve(reply(b"p2"))
        pending[b"p4"].resolve(reply(b"p4"))
        assert peer.received == b""
        pending[b"p1"].resolve(reply(b"p1"))
        assert peer.received == b"p1p2x3p4"
        assert peer.server.memory.used_bytes == 0

    run(scenario())


def test_a_waiting_request_holds_back_the_ones_behind_it() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        seen: list[bytes] = []

        async def wait(frame: bytes) -> Reply:
            await gate.wait()
            return reply(frame)

        def dispatch(frame: bytes) -> Any:
            seen.append(frame)
            return FakeWaiting(wait(frame)) if frame == b"long" else reply(frame)

        peer = Peer(dispatch)
        peer.send(b"a", b"long", b"b")
        await turns()
        assert seen == [b"a", b"long"]
        gate.set()
        await turns()
        assert peer.received == b"alongb"

    run(scenario())


def test_requests_without_answer_do_not_disturb() -> None:
    async def scenario() -> None:
        peer = Peer(lambda frame: Reply() if frame == b"silent" else reply(frame))
        peer.send(b"a", b"silent", b"b")
        assert peer.received == b"ab"

    run(scenario())


def test_what_was_sent_before_the_end_is_handled() -> None:
    async def scenario() -> None:
        handled: list[bytes] = []

        def dispatch(frame: bytes) -> Reply:
            handled.append(frame)
            return Reply()

        peer = Peer(dispatch)
        bodies = [b"%d" % number for number in range(100)]
        peer.send(*bodies)
        assert len(handled) < 100
        assert peer.connection.eof_received()
        assert peer.transport.ended == ""
        await turns(10)
        assert handled == bodies
        assert peer.transport.ended == "closed"

    run(scenario())


def test_the_end_of_a_peer_that_waits_for_something() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def wait() -> Reply:
            await gate.wait()
            return reply(b"late")

        peer = Peer(lambda _frame: FakeWaiting(wait()))
        peer.send(b"long")
        peer.connection.eof_received()
        assert peer.transport.ended == "closed"
        peer.connection.connection_lost(None)  # before the handler had its first turn
        await turns()
        gate.set()
        await turns()
        assert peer.received == b""

    run(scenario())


def test_answers_that_wait_for_an_earlier_one_are_charged_and_bounded() -> None:
    async def scenario() -> None:
        first: Deferred[Reply] = Deferred()
        handled: list[bytes] = []

        def dispatch(frame: bytes) -> Any:
            handled.append(frame)
            return first if len(handled) == 1 else reply(b"x" * 1000)

        peer = Peer(dispatch, connection_bytes_max=2500)
        peer.send(*[b"r"] * 10)
        assert len(handled) == 4
        assert peer.server.memory.used_bytes == 3010
        assert not peer.transport.reading
        first.resolve(reply(b"1"))
        await turns()
        assert len(handled) == 10
        assert peer.received == b"1" + b"x" * 9000
        assert peer.server.memory.used_bytes == 0

    run(scenario())


def test_many_who_wait_for_memory_are_woken_without_deep_calls() -> None:
    async def scenario() -> None:
        peers = [Peer(lambda frame: reply(frame[:1]), total_bytes_max=1000)]
        memory = peers[0].server.memory
        for _ in range(2000):
            peer = Peer(lambda frame: reply(frame[:1]))
            peer.server.memory = peer.connection._memory = memory
            peers.append(peer)
        memory.charge(1000)
        for peer in peers:
            peer.send(b"request")
        memory.release(1000)
        assert all(peer.received == b"r" for peer in peers)
        assert memory.used_bytes == 0

    run(scenario())


def test_reading_stops_at_too_many_requests_and_goes_on_after_answers() -> None:
    async def scenario() -> None:
        pending: list[Deferred[Reply]] = []

        def dispatch(_frame: bytes) -> Any:
            pending.append(Deferred())
            return pending[-1]

        peer = Peer(dispatch, connection_requests_max=3)
        peer.send(b"a", b"b")
        assert peer.transport.reading
        peer.send(b"c")
        assert not peer.transport.reading
        pending[0].resolve(reply(b"1"))
        assert peer.transport.reading

    run(scenario())


def test_reading_stops_at_too_many_bytes() -> None:
    async def scenario() -> None:
        pending: list[Deferred[Reply]] = []

        def dispatch(_frame: bytes) -> Any:
            pending.append(Deferred())
            return pending[-1]

        peer = Peer(dispatch, connection_bytes_max=1000)
        peer.send(b"x" * 600)
        assert peer.transport.reading
        peer.send(b"x" * 600)
        assert not peer.transport.reading
        assert peer.server.memory.used_bytes == 1200
        for each in pending:
            each.resolve(reply(b"ok"))
        assert peer.transport.reading
        assert peer.server.memory.used_bytes == 0

    run(scenario())


def test_a_peer_that_does_not_read_gets_no_more_work_done() -> None:
    async def scenario() -> None:
        handled: list[bytes] = []

        def dispatch(frame: bytes) -> Reply:
            handled.append(frame)
            return reply(frame)

        peer = Peer(dispatch)
        peer.transport.unsent = 5_000_000
        peer.connection.pause_writing()
        peer.send(b"a")
        assert handled == []
        assert not peer.transport.reading
        peer.transport.unsent = 0
        peer.connection.resume_writing()
        assert handled == [b"a"]
        assert peer.transport.reading

    run(scenario())


def test_without_memory_nothing_is_begun_until_somebody_releases() -> None:
    async def scenario() -> None:
        handled: list[bytes] = []

        def dispatch(frame: bytes) -> Reply:
            handled.append(frame)
            return reply(frame)

        peer = Peer(dispatch, total_bytes_max=1000)
        peer.server.memory.charge(1000)  # somebody else's
        peer.send(b"a" * 10)
        assert handled == []
        assert not peer.transport.reading
        peer.server.memory.release(1000)
        assert handled == [b"a" * 10]
        assert peer.transport.reading
        assert peer.server.memory.used_bytes == 0

    run(scenario())


def test_one_connection_alone_may_exceed_the_memory_or_it_would_wait_for_itself() -> None:
    async def scenario() -> None:
        peer = Peer(lambda frame: reply(frame[:1]), total_bytes_max=1000)
        peer.send(b"a" * 5000, b"b" * 5000)
        assert peer.received == b"ab"

    run(scenario())


def test_garbage_and_failing_handlers_end_the_connection_and_release_its_memory() -> None:
    async def scenario() -> None:
        def dispatch(frame: bytes) -> Reply:
            raise DecodeError("nonsense") if frame == b"garbage" else ZeroDivisionError

        for frame, end in ((b"garbage", "aborted"), (b"boom", "closed")):
            peer = Peer(dispatch)
            peer.send(frame, b"after")
            assert peer.transport.ended == end
            peer.connection.connection_lost(None)
            assert peer.server.memory.used_bytes == 0
            assert peer.received == b""

    run(scenario())


def test_a_big_frame_waits_for_memory_in_the_middle() -> None:
    async def scenario() -> None:
        peer = Peer(lambda frame: reply(b"%d" % len(frame)), total_bytes_max=1000, frame_bytes_max=10_000_000)
        peer.server.memory.charge(1000)
        data = struct.pack(">i", 100_000) + b"x" * 100_000
        peer.send_raw(data[:50_000])
        assert not peer.transport.reading
        peer.server.memory.release(1000)
        assert peer.transport.reading
        peer.send_raw(data[50_000:])
        assert peer.received == b"100000"
        assert peer.server.memory.used_bytes == 0

    run(scenario())


def test_stalled_and_idle_peers_are_sent_away() -> None:
    async def scenario() -> None:
        now = asyncio.get_running_loop().time()
        idle = Peer(reply)
        idle.connection.check_progress(now + 599)
        assert idle.transport.ended == ""
        idle.connection.check_progress(now + 601)
        assert idle.transport.ended == "closed"
        half = Peer(reply)
        half.send_raw(b"\x00\x00\x00\x09abc")
        half.connection.check_progress(now)
        half.connection.check_progress(now + 20)
        assert half.transport.ended == ""
        half.connection.check_progress(now + 40)
        assert half.transport.ended == "aborted"
        deaf = Peer(reply)
        deaf.connection.pause_writing()
        deaf.connection.check_progress(now + 40)
        assert deaf.transport.ended == "aborted"

    run(scenario())
