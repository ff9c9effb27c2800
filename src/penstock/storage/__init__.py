"""Logs on disk or in memory: see log.py for the log itself, interface.py for what a backend does."""

from penstock.storage.compaction import CompactionPlan, CompactionResult, run_compaction
from penstock.storage.config import Flush, LogConfig
from penstock.storage.epochs import EpochEnd, EpochEntry, LeaderEpochs
from penstock.storage.errors import DamagedEndError, RotError, StorageError
from penstock.storage.flush import FlushJob
from penstock.storage.folder import FileStorage
from penstock.storage.interface import Storage
from penstock.storage.log import PartitionLog
from penstock.storage.memory import MemoryStorage
from penstock.storage.producers import Duplicate, ProducerStates
from penstock.storage.timestamps import TimestampedOffset

__all__ = [
    "CompactionPlan",
    "CompactionResult",
    "DamagedEndError",
    "Duplicate",
    "EpochEnd",
    "EpochEntry",
    "FileStorage",
    "Flush",
    "FlushJob",
    "LeaderEpochs",
    "LogConfig",
    "MemoryStorage",
    "PartitionLog",
    "ProducerStates",
    "RotError",
    "Storage",
    "StorageError",
    "TimestampedOffset",
    "run_compaction",
]
