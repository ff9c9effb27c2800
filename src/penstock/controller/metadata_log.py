"""The metadata log on disk: batches of metadata records, each applied as a whole or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.configs import METADATA_TOPIC
from penstock.metadata.image import ImageDraft, MetadataImage
from penstock.metadata.records import MetadataRecordError, decode, encode
from penstock.storage.config import Flush, LogConfig
from penstock.storage.errors import StorageError
from penstock.wire import compression
from penstock.wire.batch import read_header
from penstock.wire.compression import CompressionError
from penstock.wire.records import Record, RecordsError, decode_records, encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.records import MetadataRecord
    from penstock.storage.interface import Storage

METADATA_LOG = f"{METADATA_TOPIC}-0"
METADATA_TOPIC_ID = UUID(int=1)
COMPRESSED_FROM_BYTES = 4096
"""Batches of many records are much alike: a thousand leader epochs shrink to a few kilobytes."""


class MetadataLog:
    def __init__(self, storage: Storage, *, now_ms: int) -> None:
        # Nothing may ever go missing from it, and what was answered was on disk, whatever a node's flush is.
        config = LogConfig(flush=Flush.COMMIT, delete=False, retention_ms=-1)
        self._log = storage.open_log(METADATA_LOG, METADATA_TOPIC_ID, config, now_ms)
        # Each process writes in an epoch of its own, as the leader of any partition does.
        self._epoch = self._log.epochs.latest + 1

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    def replay(self) -> MetadataImage:
        draft = ImageDraft(MetadataImage())
        for header, batch in self._log.batches(0, self._log.log_end_offset):
            try:
                for record in decode_records(batch, header):
                    draft.apply(decode(record.value))
            except (MetadataRecordError, RecordsError, CompressionError) as error:
                raise StorageError(
                    f"the metadata log {METADATA_LOG} is damaged or too new"
                    f" (batch at offset {header.base_offset}): {error}"
                ) from error
        image, _ = draft.finish()
        return image

    async def append(self, records: Sequence[MetadataRecord], *, now_ms: int) -> None:
        """Durable when it returns; raises StorageError if it cannot be made so."""
        values = [encode(record) for record in records]
        size = sum(map(len, values))
        codec = compression.ZSTD if size >= COMPRESSED_FROM_BYTES else compression.NONE
        batch = encode_batch(
            [Record(offset, now_ms, None, value) for offset, value in enumerate(values)], codec=codec
        )
        self._log.append(batch, read_header(batch), leader_epoch=self._epoch, now_ms=now_ms)
        loop = asyncio.get_running_loop()
        while self._log.flushed_end_offset < self._log.log_end_offset:
            job = self._log.take_flush()
            if job is None:
                raise self._log.error or StorageError(f"{METADATA_LOG} has nothing to flush")
            await loop.run_in_executor(None, job.run)
            self._log.finish_flush(job)

    def close(self) -> None:
        self._log.close()
