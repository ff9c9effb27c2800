"""Where to begin to read the heat map: the log holds an hour of it, and only the last windows are wanted.

The last record says how old the log is, which may be much if the job stands still; and the cells there, how
long a window is. The newest windows were written within a few times that length before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.client.errors import InvalidMessageError
from penstock.gateway.traffic.following import offset_at
from penstock.traffic.heat import HeatCell, parse_heat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.gateway.kafka.reader import LogReader
    from penstock.kafka.records import ReadRecord

LOOK_BACK_OFFSETS: Final = 2_000
RECENT_MS_MIN: Final = 20_000
RECENT_MS_MAX: Final = 3_600_000
RECENT_WINDOWS: Final = 4
"""Two are wanted; the job may be that much behind."""


async def recent_start(reader: LogReader, topic: str, partition: int) -> int:
    offsets = await reader.offsets(topic, partition)
    offset = max(offsets.start, offsets.end - LOOK_BACK_OFFSETS)
    last: list[ReadRecord] = []
    while offset < offsets.end:
        fetched = await reader.fetch(topic, partition, offset)
        last += fetched.records
        if fetched.next_offset == offset:
            break  # a replica that does not have the rest yet
        offset = fetched.next_offset
    if not last:
        return offsets.start
    recent_ms = min(max(RECENT_MS_MIN, RECENT_WINDOWS * window_ms(last)), RECENT_MS_MAX)
    return await offset_at(reader, topic, partition, last[-1].timestamp_ms - recent_ms)


def window_ms(records: Iterable[ReadRecord]) -> int:
    """The length of the longest window among them; 0 if there is none."""
    longest = 0
    for record in records:
        try:
            found = parse_heat(record.key, record.value)
        except InvalidMessageError:
            continue
        if isinstance(found, HeatCell):
            longest = max(longest, found.end_ms - found.start_ms)
    return longest
