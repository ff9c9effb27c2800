"""One client connection: frames in, answers out, in order, with a bound on everything it holds.

Requests are handed to the router in the order they came. A produce request appends at once and is answered
later, so many of them overlap; any other request that has to wait holds back the ones behind it, as in
Kafka. Answers leave in the order of their requests: each request takes a slot in `_slots`, and a slot is
sent when it is filled and all before it are sent.

Reading stops while the connection has too many unanswered requests or bytes, while its peer does not read
the answers, or while the broker as a whole is short of memory (see memory.py); TCP then slows the peer down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.broker.context import ConnectionState
from penstock.broker.reply import Deferred, Reply
from penstock.wire.codec import DecodeError
from penstock.wire.frames import FIRST_ALLOCATION_SIZE, FrameDecoder, FrameError

if TYPE_CHECKING:
    from penstock.broker.server import Server
    from penstock.wire.batch import Buffer

log = logging.getLogger(__name__)

REQUESTS_PER_TURN: Final = 32
"""Then the event loop serves the other connections first."""
SCARCE_ALLOCATION_SIZE: Final = 16 * 1024
"""For a frame that begins while memory is short."""
WRITE_BUFFER_HIGH: Final = 1024 * 1024


class Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("frame_size", "reply")

    def __init__(self, frame_size: int) -> None:
        self.frame_size = frame_size
        self.reply: Reply | None = None


class Connection(asyncio.BufferedProtocol):
    def __init__(self, server: Server) -> None:
        self._server = server
        self._limits = server.limits
        self._memory = server.memory
        self._decoder = FrameDecoder(server.scratch, server.pool, self._limits.frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._inbox: deque[bytes | memoryview] = deque()
        self._slots: deque[Slot] = deque()
        self._request_bytes = 0  # in _inbox and _slots
        self._charged = 0
        self._held_by_decoder = 0
        self._task: asyncio.Task[None] | None = None  # the request that holds back the others
        self._turn_scheduled = False
        self._waits_for_memory = False
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False
        self._state = ConnectionState("")
        self._progressed = False  # since the last look
        self._last_progress = server.loop.time()
        self.frame_began: float | None = None

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport, and another ancestry.
        self._transport = transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._state.client_host = str(peer[0]) if peer else "unknown"
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        if not self._server.admit(self):
            log.warning(
                "connection from %s refused: %d are open", self._state.client_host, self._server.count
            )
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._closing = True
        self._server.forget(self)
        if self._task is not None:
            self._task.cancel()
        # Requests that were not handled yet are dropped; what is appended already stays appended.
        self._inbox.clear()
        self._slots.clear()
        self._charge(-self._charged)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._decoder.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._progressed = True
        self._server.metrics.bytes_in += nbytes
        decoder = self._decoder
        scarce = self._memory.is_exhausted
        try:
            frames = decoder.received(
                nbytes, allocation_max=SCARCE_ALLOCATION_SIZE if scarce else FIRST_ALLOCATION_SIZE
            )
        except FrameError as error:
            self._fail(str(error))
            return
        held = self._held_by_decoder
        if held and not frames and decoder.held_bytes == held and not decoder.wants_memory:
            return  # one more piece of a frame: by far the most frequent case when frames are big
        for frame in frames:
            self._inbox.append(frame)
            self._request_bytes += len(frame)
            self._charge(len(frame))
        self._take_turn()

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._update_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._progressed = True
        self._settle_charge()
        self._take_turn()

    # Requests

    def _take_turn(self) -> None:
        """Handle what may be handled now, then let the others have their turn."""
        self._turn_scheduled = False
        for _ in range(REQUESTS_PER_TURN):
            if not self._inbox or not self._may_handle():
                break
            self._handle(self._inbox.popleft())
        else:
            if self._inbox and not self._turn_scheduled:
                self._turn_scheduled = True
                self._server.loop.call_soon(self._take_turn)
        self._update_reading()

    def _may_handle(self) -> bool:
        if self._closing or self._task is not None or self._writing_paused or self._turn_scheduled:
            return False
        if self._memory.must_wait(self._charged):
            self._wait_for_memory()
            return False
        return not self._waits_for_memory

    def _handle(self, frame: bytes | memoryview) -> None:
        slot = Slot(len(frame))
        self._slots.append(slot)
        try:
            result = self._server.router.dispatch(frame, self._state)
        except DecodeError as error:
            self._fail(str(error))
            return
        except Exception:
            log.exception("a request from %s failed; closing its connection", self._state.client_host)
            self._close()
            return
        if isinstance(result, Reply):
            self._fill(slot, result)
        elif isinstance(result, Deferred):
            result.then(lambda reply: self._finish(slot, reply))
        else:
            self._task = self._server.loop.create_task(self._complete(slot, result))

    async def _complete(self, slot: Slot, waiting: Any) -> None:
        try:
            reply = await waiting
        except DecodeError as error:
            self._fail(str(error))
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a request from %s failed; closing its connection", self._state.client_host)
            self._close()
        else:
            self._task = None
            self._fill(slot, reply)
            self._take_turn()

    def _finish(self, slot: Slot, reply: Reply) -> None:
        if not self._closing:
            self._fill(slot, reply)
            if self._inbox or self._reading_paused:
                self._take_turn()

    # Answers

    def _fill(self, slot: Slot, reply: Reply) -> None:
        slot.reply = reply
        if self._closing or self._transport is None:
            return
        buffers: list[Buffer] = []
        while self._slots and (first := self._slots[0].reply) is not None:
            self._request_bytes -= self._slots.popleft().frame_size
            buffers += first.buffers
            if first.close_after:
                self._write(buffers)
                self._close()
                return
        self._write(buffers)
        self._settle_charge()

    def _write(self, buffers: list[Buffer]) -> None:
        if buffers and self._transport is not None:
            self._server.metrics.bytes_out += sum(map(len, buffers))
            self._transport.writelines(buffers)

    # Limits

    def _charge(self, size: int) -> None:
        self._charged += size
        if size >= 0:
            self._memory.charge(size)
        else:
            self._memory.release(-size)

    def _settle_charge(self) -> None:
        """Make the charge equal to what is held now, unsent answers included."""
        if self._transport is not None and not self._closing:
            unsent = self._transport.get_write_buffer_size()
            self._charge(self._request_bytes + unsent + self._held_by_decoder - self._charged)

    def _update_reading(self) -> None:
        if self._closing or self._transport is None:
            return
        decoder = self._decoder
        if decoder.wants_memory and not self._memory.must_wait(self._charged):
            decoder.grow()
        self._charge(decoder.held_bytes - self._held_by_decoder)
        self._held_by_decoder = decoder.held_bytes
        if not decoder.in_frame:
            self.frame_began = None
        elif self.frame_began is None:
            self.frame_began = self._server.loop.time()
        if decoder.wants_memory:
            self._wait_for_memory()
        pause = (
            self._writing_paused
            or decoder.wants_memory
            or self._waits_for_memory
            or len(self._slots) + len(self._inbox) >= self._limits.connection_requests_max
            or self._request_bytes >= self._limits.connection_bytes_max
        )
        if pause != self._reading_paused:
            self._reading_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _wait_for_memory(self) -> None:
        if not self._waits_for_memory:
            self._waits_for_memory = True
            self._memory.when_free(self._memory_is_free, self._charged)

    def _memory_is_free(self) -> None:
        self._waits_for_memory = False
        if not self._closing:
            self._take_turn()

    # Ends

    def check_progress(self, now: float) -> None:
        """Called now and then: a peer that neither sends nor reads does not stay for ever."""
        if self._progressed:
            self._progressed = False
            self._last_progress = now
        limits = self._limits
        stalled_ms = (now - self._last_progress) * 1000
        if self._writing_paused and stalled_ms > limits.frame_stall_ms_max:
            self._fail("the client does not read its answers")
        elif self.frame_began is not None and not self._reading_paused:
            allowed_ms = limits.frame_stall_ms_max * (1 + self._decoder.held_bytes / FIRST_ALLOCATION_SIZE)
            if (now - self.frame_began) * 1000 > allowed_ms or stalled_ms > limits.frame_stall_ms_max:
                self._fail("a request was begun and not finished in time")
        elif not self._slots and not self._inbox and stalled_ms > limits.idle_ms_max:
            self._close()

    def _fail(self, reason: str) -> None:
        log.info("closing the connection of %s: %s", self._state.client_host, reason)
        self._server.metrics.connections_failed += 1
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def shut_down(self) -> None:
        self._close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
