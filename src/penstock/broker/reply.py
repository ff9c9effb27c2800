"""What a handler's work comes to on the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from penstock.wire.batch import Buffer

T = TypeVar("T")


@dataclass(slots=True)
class Reply:
    """A whole response frame as buffers to be sent one after the other; none for a request without answer."""

    buffers: tuple[Buffer, ...] = ()
    close_after: bool = False

    @property
    def size(self) -> int:
        return sum(map(len, self.buffers))


@dataclass(slots=True)
class EncodedBody:
    """A response body that a handler encoded itself, because it is on the hot path."""

    buffers: list[Buffer]


@dataclass(slots=True)
class NoResponse:
    """`acks=0`. With `close_after` the client learns of a failure in the only way that is left."""

    close_after: bool = False


class Deferred(Generic[T]):
    """A value that comes later, to exactly one receiver, which is called at once when it comes.

    An asyncio.Future would do, but calls back in a later turn of the event loop; an acknowledgement would
    make three such detours.
    """

    __slots__ = ("_receiver", "_value")

    def __init__(self) -> None:
        self._receiver: Callable[[T], None] | None = None
        self._value: list[T] = []

    def resolve(self, value: T) -> None:
        if self._receiver is not None:
            self._receiver(value)
        else:
            self._value.append(value)

    def then(self, receiver: Callable[[T], None]) -> None:
        self._receiver = receiver
        if self._value:
            receiver(self._value.pop())
