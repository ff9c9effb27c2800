"""One client connection: frames in, answers out, in order, with a bound on everything it holds.

Requests are handed to the router in the order they came. A produce request appends at once and is answered
later, so many of them overlap; any other request that has to wait holds back the ones behind it, as in
Kafka. Answers leave in the order of their requests: each request takes a slot in `_slots`, and a slot is
sent when it is filled and all before it are sent.

Reading stops while the connection has too many unanswered requests or bytes, while its peer does not read
the answers, or while the broker as a whole is short of memory (see memory.py); TCP then slows the peer down.
A peer that has sent its last byte is still served what it sent: `acks=0` producers leave like that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from penstock.broker.context import ConnectionState
from penstock.broker.reply import Deferred, Reply
from penstock.wire.frames import FIRST_ALLOCATION_SIZE, FrameDecoder, FrameError
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.broker.router import Waiting
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
        self.state = ConnectionState("")
        self._inbox: deque[bytes | memoryview] = deque()
        self._slots: deque[Slot] = deque()
        self._request_bytes = 0  # in _inbox and _slots
        self._reply_bytes = 0  # of answers that wait for the ones before them
        self._decoder_bytes = 0
        self._charged = 0
        self._task: asyncio.Task[None] | None = None  # of the request that holds back the others
        self._turn_is_due = False
        self._waits_for_memory = False
        self._writing_paused = False
        self._reading_paused = False
        self._peer_is_done = False
        self._closing = False
        self._is_on_trial = False
        self._progressed = False  # since the last look
        self._last_progress = server.loop.time()
        self._frame_began: float | None = None

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport, and another ancestry.
        self._transport = transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.state.client_host = str(peer[0]) if peer else "unknown"
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        refusal = self._server.refusal(self)
        if refusal is not None:
            log.warning("connection from %s refused: %s", self.state.client_host, refusal)
            transport.abort()
            return
        self._is_on_trial = self._server.is_on_trial(self)

    def eof_received(self) -> bool:
        self._peer_is_done = True
        self._take_turn()
        return True  # the transport is closed when what was sent is handled

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._closing = True
        self._server.forget(self)
        if self._task is not None:
            self._task.cancel()
        # Requests that were not handled yet are dropped; what is appended already stays appended.
        self._inbox.clear()
        self._slots.clear()
        self._charge_to(0)

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
        held = self._decoder_bytes
        if held and not frames and decoder.held_bytes == held and not decoder.wants_memory:
            return  # one more piece of a frame: by far the most frequent case when frames are big
        for frame in frames:
            self._inbox.append(frame)
            self._request_bytes += len(frame)
        self._settle()
        self._take_turn()

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._update_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._progressed = True
        self._settle()
        self._take_turn()

    # Requests

    def _take_turn(self) -> None:
        """Handle what may be handled now, then let the others have their turn."""
        handled = 0
        while self._inbox and not self._turn_is_due and self._may_handle():
            self._handle(self._inbox.popleft())
            handled += 1
            if handled == REQUESTS_PER_TURN and self._inbox:
                self._turn_is_due = True
                self._server.loop.call_soon(self._turn_has_come)
        if self._peer_is_done and (not self._inbox or self._task is not None):
            self._close()  # nothing is left that could change anything; nobody waits for the answers
        self._update_reading()

    def _turn_has_come(self) -> None:
        self._turn_is_due = False
        self._take_turn()

    def _may_handle(self) -> bool:
        if self._closing or self._task is not None or self._writing_paused or self._waits_for_memory:
            return False
        if self._reply_bytes >= self._limits.connection_bytes_max:
            return False
        if self._memory.must_wait(self._charged):
            self._wait_for_memory()
            return False
        return True

    def _handle(self, frame: bytes | memoryview) -> None:
        slot = Slot(len(frame))
        self._slots.append(slot)
        try:
            if self._is_on_trial and not self._server.try_node(self, frame):
                self._fail("clients have all the connections that are for them")
                return
            self._is_on_trial = False
            result = self._server.router.dispatch(frame, self.state)
        except DecodeError as error:
            self._fail(str(error))
            return
        except Exception:
            log.exception("a request from %s failed; closing its connection", self.state.client_host)
            self._close()
            return
        if isinstance(result, Reply):
            self._fill(slot, result)
        elif isinstance(result, Deferred):
            result.then(lambda reply: self._finish(slot, reply))
        else:
            self._task = self._server.loop.create_task(self._complete(slot, result))
            self._task.add_done_callback(lambda _: result.close())

    async def _complete(self, slot: Slot, waiting: Waiting) -> None:
        try:
            reply = await waiting.reply()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a request from %s failed; closing its connection", self.state.client_host)
            self._close()
        else:
            self._task = None
            if not self._closing:
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
        self._reply_bytes += reply.size
        buffers: list[Buffer] = []
        close = False
        while self._slots and not close and (first := self._slots[0].reply) is not None:
            self._request_bytes -= self._slots.popleft().frame_size
            self._reply_bytes -= first.size
            buffers += first.buffers
            close = first.close_after
        if buffers and self._transport is not None:
            self._server.metrics.bytes_out += sum(map(len, buffers))
            self._transport.writelines(buffers)
        if close:
            self._close()
        self._settle()

    # Limits

    def _settle(self) -> None:
        """Make the charge equal to what is held now."""
        if self._transport is not None and not self._closing:
            unsent = self._transport.get_write_buffer_size()
            self._decoder_bytes = self._decoder.held_bytes
            self._charge_to(self._request_bytes + self._reply_bytes + unsent + self._decoder_bytes)

    def _charge_to(self, total: int) -> None:
        change = total - self._charged
        self._charged = total
        if change > 0:
            self._memory.charge(change)
        elif change < 0:
            self._memory.release(-change)

    def _update_reading(self) -> None:
        if self._closing or self._transport is None:
            return
        decoder = self._decoder
        if decoder.wants_memory and not self._memory.must_wait(self._charged):
            decoder.grow()
            self._settle()
        if not decoder.in_frame:
            self._frame_began = None
        elif self._frame_began is None:
            self._frame_began = self._server.loop.time()
        if decoder.wants_memory:
            self._wait_for_memory()
        pause = (
            self._writing_paused
            or decoder.wants_memory
            or self._waits_for_memory
            or len(self._slots) + len(self._inbox) >= self._limits.connection_requests_max
            or self._request_bytes + self._reply_bytes >= self._limits.connection_bytes_max
        )
        if pause == self._reading_paused:
            return
        self._reading_paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
            self._progressed = True  # it could not make any while it was not read
            if self._frame_began is not None:
                self._frame_began = self._server.loop.time()

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
        if self._closing:
            if stalled_ms > limits.frame_stall_ms_max:
                self.abort()  # it does not take the last answers
        elif self._is_on_trial:
            if stalled_ms > limits.trial_ms_max:
                self.give_way()
        elif self._writing_paused and stalled_ms > limits.frame_stall_ms_max:
            self._fail("the client does not read its answers")
        elif self._frame_began is not None and not self._reading_paused:
            allowed_ms = limits.frame_stall_ms_max * (1 + self._decoder_bytes / FIRST_ALLOCATION_SIZE)
            if (now - self._frame_began) * 1000 > allowed_ms or stalled_ms > limits.frame_stall_ms_max:
                self._fail("a request was begun and not finished in time")
        elif not self._slots and not self._inbox and stalled_ms > limits.idle_ms_max:
            self._close()

    def _fail(self, reason: str) -> None:
        log.info("closing the connection of %s: %s", self.state.client_host, reason)
        self._server.metrics.connections_failed += 1
        self._closing = True
        self.abort()

    def give_way(self) -> None:
        """Make room at once for one that comes."""
        self._fail("it has not shown that it is a node's")
        self._server.forget(self)

    def _close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def shut_down(self) -> None:
        """Send what is answered already, then close."""
        self._close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
