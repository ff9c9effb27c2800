"""A data source that gives positions: `penstock`, with the messages parsed where they are read.

The columns are parsing.PARSED. What Spark does with a message between two Python workers, to hand it over
from one that reads to one that parses, costs more than reading and parsing it; here it never sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import ByteType, LongType, StringType, StructField, StructType, TimestampType

from penstock.pipelines.traffic.parsing import parse
from penstock.spark.datasource import PenstockDataSource, PenstockStreamReader
from penstock.spark.options import ReadOptions, read_options
from penstock.spark.schema import READ_SCHEMA, arrow_schema
from penstock.traffic.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

FORMAT: Final = "penstock-positions"
GRID: Final = "grid"
"""The option with the map, in JSON. All others are those of `penstock`."""
MESSAGE_COLUMNS: Final = ("value", "topic", "timestamp")
COLUMNS: Final = StructType(
    [
        StructField("outcome", ByteType()),
        StructField("event_time", TimestampType()),
        StructField("clock", TimestampType()),
        StructField("car", StringType()),
        StructField("cell", LongType()),
        StructField("speed", LongType()),
    ]
)


class PositionsDataSource(PenstockDataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        self._read_options()
        return COLUMNS

    def streamReader(self, schema: StructType) -> PositionsStreamReader:  # noqa: ARG002, N802
        return PositionsStreamReader(self._read_options().for_stream(), Grid.from_json(self.options[GRID]))

    def _read_options(self) -> ReadOptions:
        return read_options({name: value for name, value in self.options.items() if name != GRID})


class PositionsStreamReader(PenstockStreamReader):
    def __init__(self, options: ReadOptions, grid: Grid) -> None:
        super().__init__(options, arrow_schema(StructType([READ_SCHEMA[name] for name in MESSAGE_COLUMNS])))
        self._grid = grid

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield parse(batch, self._grid)
