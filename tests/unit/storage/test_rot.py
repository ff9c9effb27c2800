"""A flipped bit anywhere in a file: never handed out, and the rest is readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.storage import FileStorage, PartitionLog, RotError, StorageError, run_compaction
from penstock.storage import checked_bytes as checked_bytes_module
from penstock.storage import file as file_module
from penstock.storage import segment as segment_module
from penstock.storage.rot import Damage, Stretch
from penstock.wire.batch import iterate_headers
from tests.unit.storage.builders import ALL, NOW_MS, TOPIC_ID, append_flushed, batch, small_config
from tests.unit.storage.disks import QuickDisk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.storage.config import LogConfig

COUNT = 40
VALUES = [b"%03d" % at * 30 for at in range(COUNT)]
SIZE = len(batch([VALUES[0]]))
CONFIG = small_config(index_interval_bytes=3 * SIZE)
EPOCH_BYTES = range(12, 16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some segments of about ten batches, closed cleanly."""
    storage = FileStorage.open(tmp_path / "data", 1, disk=QuickDisk())
    log = open_log(storage)
    for value in VALUES:
        append_flushed(log, batch([value]), leader_epoch=5)
    storage.close()
    return tmp_path / "data"


def open_log(storage: FileStorage, config: LogConfig = CONFIG) -> PartitionLog:
    return storage.open_log("t-0", TOPIC_ID, config, NOW_MS)


class Opened:
    def __init__(self, folder: Path) -> None:
        self.disk = QuickDisk()
        self.storage = FileStorage.open(folder, 1, disk=self.disk)
        self.log = open_log(self.storage)

    def __enter__(self) -> PartitionLog:
        return self.log

    def __exit__(self, *_: object) -> None:
        self.storage.close()


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "t-0").glob("*.log"))


def flip(path: Path, at: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))


def place_of(folder: Path, offset: int) -> tuple[Path, int]:
    path = next(each for each in reversed(segments(folder)) if int(each.stem) <= offset)
    return path, (offset - int(path.stem)) * SIZE


def read_offsets(log: PartitionLog, size_max: int = 1 << 20) -> tuple[list[int], list[int]]:
    """The offsets that can be read one read after the other, and those at which a read fails."""
    read, failed = [], []
    offset = 0
    while offset < log.flushed_end_offset:
        try:
            data = log.read(offset, size_max, end_offset=ALL)
        except StorageError:
            failed.append(offset)
            offset += 1
            continue
        for position, header in iterate_headers(memoryview(data)):
            whole = bytes(data[position : position + header.size])
            assert whole[61:] == batch([VALUES[header.base_offset]])[61:]
            read.append(header.base_offset)
            offset = header.next_offset
    return read, failed


@pytest.mark.parametrize("offset", [0, 2, 14, 15, COUNT - 3, COUNT - 1])
@pytest.mark.parametrize("at", [*range(0, 61, 3), 7, 8, 11, 17, 61, 70, SIZE - 1])
def test_a_flipped_bit_is_never_handed_out(folder: Path, offset: int, at: int) -> None:
    path, position = place_of(folder, offset)
    flip(path, position + at, bit=(at + offset) % 7)
    with Opened(folder) as log:
        if at in EPOCH_BYTES:
            return  # it is outside the CRC: see the next test
        read, failed = read_offsets(log)
        assert failed == [offset]
        assert read == [each for each in range(COUNT) if each != offset]
    with Opened(folder) as log:
        for each in reversed(range(COUNT)):  # whoever asks for one alone gets that one
            if each == offset:
                with pytest.raises(RotError, match=f"{path.name} is damaged at byte {position} "):
                    log.read(each, 1, end_offset=ALL)
            else:
                (header,) = [header for _, header in iterate_headers(log.read(each, 1, end_offset=ALL))]
                assert header.base_offset == each


@pytest.mark.parametrize("bit", [0, 2, 6])
def test_a_leader_epoch_that_does_not_ascend_is_noticed(folder: Path, bit: int) -> None:
    path, position = place_of(folder, 1)
    flip(path, position + 15, bit)
    with Opened(folder) as log:
        read, failed = read_offsets(log)
    assert 1 in failed
    assert set(failed) <= {0, 1, 2}
    assert sorted(read + failed) == list(range(COUNT))


@pytest.mark.parametrize("size_max", [1, SIZE + 10, 4 * SIZE])
def test_what_comes_before_in_the_same_read_is_served(folder: Path, size_max: int) -> None:
    path, position = place_of(folder, 5)
    flip(path, position + 80)
    with Opened(folder) as log:
        assert read_offsets(log, size_max) == ([each for each in range(COUNT) if each != 5], [5])


def test_several_in_one_segment(folder: Path) -> None:
    for offset in (1, 2, 4):
        path, position = place_of(folder, offset)
        flip(path, position + 9)
    with Opened(folder) as log:
        assert read_offsets(log)[1] == [1, 2, 4]


def test_a_file_that_became_shorter(folder: Path) -> None:
    path, position = place_of(folder, 3)
    opened = Opened(folder)
    with opened as log:
        with path.open("r+b") as file:
            file.truncate(position + 20)
        read, failed = read_offsets(log)
        end = int(segments(folder)[1].stem)
        assert failed == list(range(3, end))
        assert read == [0, 1, 2, *range(end, COUNT)]


def test_also_where_index_entries_are_far_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_bytes_module, "MORE_BYTES_MAX", SIZE // 2)
    path, position = place_of(folder, 4)
    flip(path, position + 80)
    for size_max in (1, SIZE + 10, 4 * SIZE, 1 << 20):
        with Opened(folder) as log:
            assert read_offsets(log, size_max) == ([each for each in range(COUNT) if each != 4], [4])


class CountedReads:
    """How many bytes were given to the CRC."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checked = 0
        real = checked_bytes_module.check_batches

        def check(view: memoryview, next_offset: int) -> tuple[int, int]:
            self.checked += len(view)
            return real(view, next_offset)

        monkeypatch.setattr(checked_bytes_module, "check_batches", check)


def test_each_byte_is_checked_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedReads(monkeypatch)
    with Opened(folder) as log:
        assert counted.checked == 0, "opening after a clean close reads nothing"
        read_offsets(log, 2 * SIZE)
        assert counted.checked == COUNT * SIZE
        read_offsets(log, 3 * SIZE)
        assert counted.checked == COUNT * SIZE


def test_one_read_does_not_check_too_much(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_bytes_module, "FIRST_READ_BYTES_MAX", 2 * SIZE)
    monkeypatch.setattr(segment_module, "_WALK_BYTES", SIZE)
    with Opened(folder) as log:
        sizes = [len(log.read(0, 1 << 20, end_offset=ALL)) // SIZE for _ in range(3)]
        assert sizes == [5, 6, 6], "the first block was checked to find the place, and all by then"
        assert read_offsets(log) == (list(range(COUNT)), [])


def test_damage_that_reaches_beyond_what_is_checked_stays(folder: Path) -> None:
    with Opened(folder) as log:
        segment = next(log.scrub_pieces()).segment
        segment.damage = [Damage(SIZE, 5 * SIZE, 1, 5, "said so")]
        segment.note(Stretch(2 * SIZE, 3 * SIZE, 2, 3), [])
        assert [(each.start, each.end) for each in segment.damage] == [(SIZE, 2 * SIZE), (3 * SIZE, 5 * SIZE)]


def test_what_this_process_wrote_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedReads(monkeypatch)
    storage = FileStorage.open(tmp_path / "data", 1, disk=QuickDisk())
    log = open_log(storage)
    for value in VALUES:
        append_flushed(log, batch([value]))
    assert read_offsets(log) == (list(range(COUNT)), [])
    assert counted.checked == 0
    storage.close()


def test_what_recovery_has_scanned_is_not_checked_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "t-0" / "clean").unlink()
    segments(folder)[-1].with_suffix(".index").unlink()
    counted = CountedReads(monkeypatch)
    with Opened(folder) as log:
        log.read(COUNT - 1, SIZE, end_offset=ALL)
        assert counted.checked == 0


def test_what_was_cut_off_and_written_anew_is_another_thing(folder: Path) -> None:
    path, position = place_of(folder, COUNT - 2)
    flip(path, position + 80)
    with Opened(folder) as log:
        assert read_offsets(log)[1] == [COUNT - 2]
        log.truncate_to(COUNT - 3)
        for value in VALUES[COUNT - 3 :]:
            append_flushed(log, batch([value]), leader_epoch=5)
        assert read_offsets(log) == (list(range(COUNT)), [])


@pytest.mark.parametrize("is_known", [False, True])
def test_what_is_damaged_can_be_cut_off(folder: Path, is_known: bool) -> None:
    path, position = place_of(folder, 20)
    flip(path, position + 5)  # its base offset, which must not become the end of the log
    with Opened(folder) as log:
        if is_known:
            assert read_offsets(log)[1] == [20]
        log.truncate_to(20)
        assert log.log_end_offset == 20
        for value in VALUES[20:]:
            append_flushed(log, batch([value]), leader_epoch=5)
        assert read_offsets(log) == (list(range(COUNT)), [])


@pytest.fixture
def compactable(tmp_path: Path) -> Iterator[tuple[PartitionLog, Path]]:
    storage = FileStorage.open(tmp_path / "data", 1, disk=QuickDisk())
    log = open_log(storage, small_config(compact=True, delete=False))
    for value in VALUES:
        append_flushed(log, batch([value], keys=[b"k"]))
    yield log, tmp_path / "data"
    storage.close()


def test_compaction_stops_and_names_what_is_rotten(compactable: tuple[PartitionLog, Path]) -> None:
    log, folder = compactable
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    second = segments(folder)[1]
    flip(second, 80)
    before = {path.name: path.read_bytes() for path in segments(folder)}
    place = f"{second} from offset {int(second.stem)} on: at byte 0: CRC mismatch"
    with pytest.raises(RotError, match=f"cannot compact t-0: {place}"):
        run_compaction(plan)
    log.discard_compaction(plan)
    assert {path.name: path.read_bytes() for path in segments(folder)} == before


def test_the_log_tells_what_is_damaged(folder: Path) -> None:
    path, position = place_of(folder, 14)
    flip(path, position + 80)
    with Opened(folder) as log:
        assert log.damage() == []
        read_offsets(log)
        (found,) = log.damage()
        assert (found.file, found.position, found.size) == (str(path), position, SIZE)
        assert (found.first_offset, found.end_offset, found.reason) == (14, 15, "CRC mismatch")


def test_scrubbing_finds_what_rotted_since_it_was_checked(folder: Path) -> None:
    with Opened(folder) as log:
        assert read_offsets(log)[1] == []
        path, position = place_of(folder, 14)
        flip(path, position + 80)
        assert log.read(14, 1, end_offset=ALL), "what was read once is not checked again"
        pieces = list(log.scrub_pieces())
        assert sum(piece.size for piece in pieces) == log.closed_bytes
        (bad,) = [piece for piece in pieces if not piece.maybe_digest()]
        (found,) = log.confirm(bad)
        assert (found.file, found.position, found.first_offset) == (str(path), position, 14)
        assert log.confirm(bad) == [], "it is no news"
        assert read_offsets(log)[1] == [14]


def test_scrubbing_goes_in_pieces_and_leaves_the_active_segment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_module, "PIECE_BYTES", 1)
    with Opened(folder) as log:
        pieces = list(log.scrub_pieces())
        paths = {piece.segment.path for piece in pieces}
        assert paths == {str(path) for path in segments(folder)[:-1]}
        assert len(pieces) == 2 * len(paths)
        assert all(piece.maybe_digest() for piece in pieces)


def test_scrubbing_goes_on_while_segments_go(folder: Path) -> None:
    with Opened(folder) as log:
        pieces = log.scrub_pieces()
        first = next(pieces)
        path, position = place_of(folder, 1)
        flip(path, position + 80)
        assert not first.maybe_digest()
        log.delete_records_before(int(segments(folder)[2].stem))
        assert log.confirm(first) == [], "it is not a part of the log any more"
        with pytest.raises(FileNotFoundError):
            first.maybe_digest()
        left = {piece.segment.path for piece in pieces}
        assert left == {str(path) for path in segments(folder)[:-1]}


def test_a_suspicion_is_confirmed_by_what_is_there_now(folder: Path) -> None:
    with Opened(folder) as log:
        first = next(log.scrub_pieces())
        path, position = place_of(folder, 2)
        flip(path, position + 80)
        assert not first.maybe_digest()
        log.truncate_to(2)
        for value in VALUES[2:]:
            append_flushed(log, batch([value]), leader_epoch=5)
        assert log.confirm(first) == []
        assert read_offsets(log) == (list(range(COUNT)), [])


def damaged(folder: Path, *offsets: int) -> Opened:
    for offset in offsets:
        path, position = place_of(folder, offset)
        flip(path, position + 80)
    opened = Opened(folder)
    assert read_offsets(opened.log)[1] == list(offsets)
    return opened


def whole_batches(folder: Path, first: int, end: int) -> bytes:
    path, position = place_of(folder, first)
    return path.read_bytes()[position : position + (end - first) * SIZE]


@pytest.mark.parametrize("offsets", [(0,), (13, 14), (COUNT - 1,)])
def test_batches_of_another_replica_are_written_over_the_damage(
    folder: Path, offsets: tuple[int, ...]
) -> None:
    before = [path.read_bytes() for path in segments(folder)]
    data = whole_batches(folder, offsets[0], offsets[-1] + 1)
    with damaged(folder, *offsets) as log:
        (found,) = log.damage()
        assert log.mend(found, data)
        assert log.damage() == []
        assert read_offsets(log) == (list(range(COUNT)), [])
        assert not log.mend(found, data), "there is nothing to mend any more"
    assert [path.read_bytes() for path in segments(folder)] == before


def test_what_is_not_sound_or_does_not_fit_is_not_written(folder: Path) -> None:
    data = whole_batches(folder, 14, 15)
    wrong = [
        data[:-1],
        data + data,
        data[:70] + b"x" + data[71:],
        whole_batches(folder, 13, 14),
        whole_batches(folder, 15, 16),
    ]
    with damaged(folder, 14) as log:
        before = [path.read_bytes() for path in segments(folder)]
        (found,) = log.damage()
        assert not any(log.mend(found, each) for each in wrong)
        assert not log.mend(found._replace(file="another.log"), data)
        assert log.damage() == [found]
        assert [path.read_bytes() for path in segments(folder)] == before


def test_of_two_damaged_places_in_a_block_one_can_be_mended(folder: Path) -> None:
    data = whole_batches(folder, 12, 13)
    with damaged(folder, 12, 14) as log:
        first, second = log.damage()
        assert log.mend(first, data)
        assert log.damage() == [second]
        assert read_offsets(log)[1] == [14]
