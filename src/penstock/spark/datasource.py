"""The data source `penstock`: `spark.read`, `spark.readStream`, `df.write` and `df.writeStream` on Kafka's
protocol.

Spark makes these objects often and in several processes: the source and its batch reader in a planning
process, the stream reader in a process that lives as long as the query, copies of both in every task. So a
reader holds options and nothing else until it is asked something, and `read` uses nothing but its argument
and the options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.spark.cluster import Cluster, resolve
from penstock.spark.consumer import read_ranges
from penstock.spark.errors import DataLossError, OptionError, SourceError
from penstock.spark.offsets import (
    OffsetRange,
    Offsets,
    Partition,
    bundles,
    from_json,
    losses,
    plan,
    ranges,
    to_json,
)
from penstock.spark.options import ReadOptions, read_options, write_options
from penstock.spark.schema import READ_SCHEMA, arrow_schema, check_written_columns
from penstock.spark.writer import (
    AtLeastOnceStreamWriter,
    AtLeastOnceWriter,
    ExactlyOnceStreamWriter,
    ExactlyOnceWriter,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

JsonOffsets = dict[str, dict[str, int]]


class PenstockDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        read_options(self.options)  # a wrong option fails at load(), and not when the query runs
        return READ_SCHEMA

    def reader(self, schema: StructType) -> PenstockReader:
        return PenstockReader(read_options(self.options).for_batch(), arrow_schema(schema))

    def streamReader(self, schema: StructType) -> PenstockStreamReader:  # noqa: N802
        return PenstockStreamReader(read_options(self.options).for_stream(), arrow_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = write_options(self.options).for_batch()
        if overwrite:
            raise SourceError("a topic cannot be overwritten: write with mode('append')")
        check_written_columns(schema, options)
        return ExactlyOnceWriter(options) if options.exactly_once else AtLeastOnceWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = write_options(self.options).for_stream()
        if overwrite:
            raise SourceError("a topic cannot be overwritten: write in the output mode append or update")
        check_written_columns(schema, options)
        return ExactlyOnceStreamWriter(options) if options.exactly_once else AtLeastOnceStreamWriter(options)


class RangePartition(InputPartition):
    """Ranges of some partitions: the work of one task."""

    value: tuple[OffsetRange, ...]


def _tasks(found: list[OffsetRange], options: ReadOptions) -> list[InputPartition]:
    return [RangePartition(bundle) for bundle in bundles(found, options.max_input_partitions)]


def _read(partition: InputPartition, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Spark stands in a partition of None for an empty list of them.
    return iter(()) if partition.value is None else read_ranges(partition.value, options, schema)


class PenstockReader(DataSourceReader):
    """A batch: what lies between two offsets of each partition, fixed when the query is planned."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        cluster = Cluster(self._options.connection)
        there = cluster.partitions(self._options.topics)
        start, end = _start(cluster, there, self._options), self._end(cluster, there)
        for partition in there:
            if start[partition] > end[partition] and self._options.fail_on_data_loss:
                raise OptionError(
                    "startingOffsets",
                    f"partition {partition} would start at {start[partition]} and end at {end[partition]}",
                )
        return _tasks(ranges(start, end), self._options)

    def _end(self, cluster: Cluster, there: list[Partition]) -> dict[Partition, int]:
        assert self._options.ending is not None
        end = resolve(cluster, there, self._options.ending, "endingOffsets")
        if self._options.ending != "latest":
            latest = cluster.latest(there)
            for partition, offset in end.items():
                if offset > latest[partition] and self._options.fail_on_data_loss:
                    raise OptionError(
                        "endingOffsets", f"partition {partition} ends at {latest[partition]}, before {offset}"
                    )
            end = {partition: min(offset, latest[partition]) for partition, offset in end.items()}
        return end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options, self._schema)


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: micro batches, each between two offsets that are in Spark's checkpoint."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._cluster = Cluster(options.connection)
        self._target: dict[Partition, int] | None = None
        self._reported: JsonOffsets | None = None
        self._committed: JsonOffsets | None = None

    def initialOffset(self) -> JsonOffsets:  # noqa: N802
        there = self._cluster.partitions(self._options.topics)
        return to_json(_start(self._cluster, there, self._options))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._latest()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        # Spark commits a batch when it begins the next one: without data to come, the last one never. But
        # it asks for the next end only when all before `start` is processed.
        self.commit(start)
        began = from_json(start)
        latest = self._latest() if self._target is None else self._target
        self._reported = to_json(latest)
        if self._options.fail_on_data_loss:
            for loss in losses(began, latest):
                raise DataLossError(loss)
        return to_json(plan(began, self._earliest(began, latest), latest, _rows(limit)))

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802
        return self._reported

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[InputPartition]:
        return _tasks(ranges(from_json(start), from_json(end)), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options, self._schema)

    def commit(self, end: JsonOffsets) -> None:
        if self._options.group is not None and end != self._committed:
            self._cluster.commit(self._options.group, from_json(end))
            self._committed = end

    def stop(self) -> None:
        self._cluster.close()

    def _latest(self) -> dict[Partition, int]:
        return self._cluster.latest(self._cluster.existing(self._options.topics))

    def _earliest(self, began: Offsets, latest: Offsets) -> dict[Partition, int]:
        """Of new partitions; of all when a stream may jump over what is gone."""
        every = not self._options.fail_on_data_loss
        return self._cluster.earliest(partition for partition in latest if every or partition not in began)


def _start(cluster: Cluster, there: list[Partition], options: ReadOptions) -> dict[Partition, int]:
    if options.starting_timestamp_ms is not None:
        return cluster.at_timestamp(there, options.starting_timestamp_ms)
    assert options.starting is not None
    return resolve(cluster, there, options.starting, "startingOffsets")


def _rows(limit: ReadLimit) -> int | None:
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    assert isinstance(limit, ReadAllAvailable), f"a limit the source never asked for: {limit}"
    return None
