"""What a log knows when it is opened: from its blobs, and from the headers of the batches after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.storage.blobs import seal, unseal
from penstock.storage.epochs import LeaderEpochs
from penstock.storage.errors import StorageError
from penstock.storage.producers import ProducerStates
from penstock.storage.transactions import Transactions
from penstock.wire.batch import BatchError, iterate_headers
from penstock.wire.compression import CompressionError
from penstock.wire.control import maybe_marker
from penstock.wire.records import RecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.storage.config import LogConfig
    from penstock.storage.interface import LogBackend
    from penstock.wire.batch import BatchHeader, Buffer
    from penstock.wire.control import Marker

EPOCHS = "epochs"
LOG_START = "log-start"
SNAPSHOT_SUFFIX = ".snapshot"
PIECE_BYTES = 1 << 20


@dataclass(slots=True)
class OpenState:
    epochs: LeaderEpochs
    epochs_stored: int
    """The version of the epochs that is stored; -1 when it must be written again."""
    producers: ProducerStates
    snapshots: list[int]
    """Offsets of the stored producer snapshots, ascending."""
    log_start_offset: int
    end_offset: int
    closed_cleanly: bool
    report: list[str]


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"


def encode_snapshot(producers: ProducerStates, offset: int) -> bytes:
    return seal(
        {
            "offset": offset,
            "producers": producers.to_json(),
            "transactions": producers.transactions.to_json(),
        }
    )


def open_state(backend: LogBackend, config: LogConfig, now_ms: int) -> OpenState:
    loaded = backend.load(config)
    report = loaded.report
    names = backend.blob_names()
    segments = backend.segments()
    log_start = _log_start(backend, names, report)
    if segments:
        log_start = max(log_start, segments[0].base_offset)
    end_offset = log_start if loaded.end_offset is None else loaded.end_offset
    if log_start > end_offset:
        report.append(
            f"the log start {log_start} lies beyond the end; the log starts at its end {end_offset}"
        )
        log_start = end_offset
        backend.put_blob(LOG_START, seal(log_start))  # it must not hide what is appended from here on
    snapshots = sorted(int(name[: -len(SNAPSHOT_SUFFIX)]) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    beyond = [offset for offset in snapshots if offset > end_offset]
    backend.remove_blobs([snapshot_name(offset) for offset in beyond])
    snapshots = snapshots[: len(snapshots) - len(beyond)]
    producers = restore_producers(backend, snapshots, log_start, end_offset, now_ms, report)
    epochs, stored = _restore_epochs(
        backend, names, log_start, end_offset, None if loaded.clean else snapshots, report
    )
    return OpenState(
        epochs=epochs,
        epochs_stored=epochs.version if stored else -1,
        producers=producers,
        snapshots=snapshots,
        log_start_offset=log_start,
        end_offset=end_offset,
        closed_cleanly=loaded.clean,
        report=report,
    )


def restore_producers(
    backend: LogBackend, snapshots: list[int], start: int, end_offset: int, now_ms: int, report: list[str]
) -> ProducerStates:
    """The newest whole snapshot, and what the batches after it add; damaged snapshots leave the list.

    Also batches before the log start count, as long as they are there: deleting records does not make a
    leader forget who wrote them, so neither may a restart.
    """
    producers = ProducerStates()
    segments = backend.segments()
    if segments:
        start = min(start, segments[0].base_offset)
    while snapshots:
        value = unseal(backend.get_blob(snapshot_name(snapshots[-1])))
        if value is not None and value["offset"] == snapshots[-1]:
            producers = ProducerStates.from_json(value["producers"])
            if "transactions" in value:  # there are none in what was written before they existed
                producers.transactions = Transactions.from_json(value["transactions"])
            start = max(start, snapshots[-1])
            break
        report.append(f"producer snapshot {snapshot_name(snapshots[-1])} is damaged; an older one is used")
        backend.remove_blobs([snapshot_name(snapshots.pop())])
    for header, batch in stored_batches(backend, start, end_offset):
        producers.update(header, header.base_offset, now_ms, marker_in(batch, header))
    return producers


def marker_in(batch: Buffer, header: BatchHeader) -> Marker | None:
    """Raises StorageError for a control batch that cannot be one: its CRC was right when it was stored."""
    if not header.is_control:
        return None
    try:
        return maybe_marker(batch, header)
    except (RecordsError, CompressionError) as error:
        raise StorageError(f"the control batch at offset {header.base_offset}: {error}") from error


def _restore_epochs(
    backend: LogBackend,
    names: list[str],
    log_start: int,
    end_offset: int,
    snapshots: list[int] | None,
    report: list[str],
) -> tuple[LeaderEpochs, bool]:
    """The stored epochs and what the batches add: all of them if the blob is damaged, else, after an unclean
    stop, those since the newest snapshot (epochs are stored before the batches that bring them)."""
    entries: Any = unseal(backend.get_blob(EPOCHS)) if EPOCHS in names else None
    damaged = entries is None and (EPOCHS in names or bool(backend.segments()))
    kept = [entry for entry in entries or () if entry[1] <= end_offset]
    epochs = LeaderEpochs(kept)
    version = epochs.version
    if damaged:
        if EPOCHS in names:
            report.append("the leader epochs are damaged and were rebuilt from the batches")
        replay_from = log_start
    elif snapshots is not None:
        replay_from = snapshots[-1] if snapshots else log_start
    else:
        replay_from = end_offset
    for header, _ in stored_batches(backend, max(replay_from, log_start), end_offset):
        if header.partition_leader_epoch > epochs.latest:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
    epochs.truncate_start(log_start)
    unchanged = epochs.version == version and len(kept) == len(entries or ())
    return epochs, unchanged and not damaged


def stored_batches(
    backend: LogBackend, offset: int, end_offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    while offset < end_offset and (data := backend.read(offset, PIECE_BYTES, end_offset)):
        view = memoryview(data)
        try:
            for position, header in iterate_headers(view):
                yield header, view[position : position + header.size]
                offset = header.next_offset
        except BatchError as error:
            raise StorageError(f"damaged after offset {offset}: {error}") from error


def _log_start(backend: LogBackend, names: list[str], report: list[str]) -> int:
    if LOG_START not in names:
        return 0
    value = unseal(backend.get_blob(LOG_START))
    if value is None:
        report.append("the log start is damaged; the log starts with its first segment")
        return 0
    return int(value)
