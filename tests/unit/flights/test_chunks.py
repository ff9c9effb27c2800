"""Files are cut into whole lines, always the same way, and chunks that cannot be used are found out."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.flights.chunks import CHUNK_BYTES_MAX, ChunkError, check_chunk, cut

ITINERARIES = (
    b"legId,startingAirport,destinationAirport,travelDuration,totalFare,totalTravelDistance,"
    b"segmentsArrivalAirportCode\n"
)
AIRPORTS = b"Airport Code;Latitude;Longitude\n"

CHUNK = 16
lines = st.lists(st.binary(max_size=CHUNK - 2).map(lambda line: line.replace(b"\n", b"\r")), max_size=40)
endings = st.sampled_from([b"\n", b"\r\n"])
CUTS = st.integers(1, 7)
"""How much is read at once, at most: as from a pipe."""


def chunks_of(data: bytes, chunk_bytes: int = CHUNK, at_once: int | None = None) -> list[bytes]:
    stream = io.BytesIO(data)
    return list(cut(lambda size: stream.read(min(size, at_once or size)), chunk_bytes))


@given(lines, endings, st.booleans(), CUTS)
def test_chunks_are_whole_lines_and_together_the_file(
    texts: list[bytes], ending: bytes, ends: bool, at_once: int
) -> None:
    data = ending.join(texts) + (ending if ends and texts else b"")
    found = chunks_of(data, CHUNK, at_once)
    missing = b"" if not data or data.endswith(b"\n") else b"\n"
    assert b"".join(found) == data + missing
    assert all(0 < len(chunk) <= CHUNK and chunk.endswith(b"\n") for chunk in found)
    assert found == chunks_of(data)  # however it is read


@given(lines, endings)
def test_no_chunk_could_have_had_the_next_line_too(texts: list[bytes], ending: bytes) -> None:
    found = chunks_of(b"".join(text + ending for text in texts))
    for chunk, following in itertools.pairwise(found):
        assert len(chunk) + following.index(b"\n") + 1 > CHUNK


@given(lines, endings, st.data())
def test_cutting_can_begin_at_any_chunk(texts: list[bytes], ending: bytes, data: st.DataObject) -> None:
    content = b"".join(text + ending for text in texts)
    found = chunks_of(content)
    first = data.draw(st.integers(0, len(found)))
    assert chunks_of(content[len(b"".join(found[:first])) :]) == found[first:]


@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK])
def test_a_line_as_long_as_a_chunk(size: int) -> None:
    line = b"x" * (size - 1) + b"\n"
    assert chunks_of(b"a\n" + line + b"b\n") == [b"a\n", line, b"b\n"]
    assert chunks_of(line) == [line]
    assert chunks_of(b"x" * (CHUNK - 1)) == [b"x" * (CHUNK - 1) + b"\n"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nmore\n"])
def test_a_line_that_is_too_long_is_named(end: bytes) -> None:
    with pytest.raises(ChunkError, match="line 3 is longer than 16 bytes"):
        chunks_of(b"a\nb\n" + b"x" * CHUNK + end)


def test_an_empty_file_has_no_chunks() -> None:
    assert chunks_of(b"") == []
    assert chunks_of(b"\n") == [b"\n"]


def test_what_is_cut_can_be_used() -> None:
    data = ITINERARIES + b"".join(b"%d,A,B,PT1H,1.5,100,C||B\n" % number for number in range(60_000))
    found = chunks_of(data, CHUNK_BYTES_MAX)
    assert len(found) == 1 + len(data) // CHUNK_BYTES_MAX
    for number, chunk in enumerate(found):
        check_chunk("itineraries", number, chunk)


@pytest.mark.parametrize(
    ("file", "message", "body", "fault"),
    [
        ("airports", 1, b"", "empty"),
        ("airports", 1, b"a;b;c", "line feed"),
        ("airports", 1, b"a;b\0;c\n", "NUL"),
        ("airports", 1, b"x" * CHUNK_BYTES_MAX + b"\n", "524289 bytes"),
        ("airports", 0, ITINERARIES, "airports.csv: no ';'"),
        ("itineraries", 0, ITINERARIES.replace(b"totalFare", b"fare"), "missing column 'totalFare'"),
        ("itineraries", 0, b"\xff\n", "not UTF-8"),
        ("itineraries", 0, b"\n", "no header line"),
    ],
)
def test_what_is_wrong_with_a_chunk(file: str, message: int, body: bytes, fault: str) -> None:
    with pytest.raises(ChunkError, match=fault) as error:
        check_chunk(file, message, body)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_only_the_first_chunk_has_a_header(start: bytes) -> None:
    check_chunk("airports", 0, start + AIRPORTS)
    check_chunk("airports", 0, start + AIRPORTS.replace(b"\n", b"\r\n") + b"ABC;1;2\r\n")
    check_chunk("airports", 1, b"anything at all \xff\n")
    check_chunk("airports", 1, b"x" * (CHUNK_BYTES_MAX - 1) + b"\n")
