"""The four queries as most people write them in PySpark: `spark.read.csv`, `cache()`, DataFrame functions."""

from __future__ import annotations

import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def miles(a: str, b: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    half = F.pow(F.sin((F.col(f"{b}_lat") - F.col(f"{a}_lat")) / 2), F.lit(2)) + F.cos(f"{a}_lat") * F.cos(
        f"{b}_lat"
    ) * F.pow(F.sin((F.col(f"{b}_lon") - F.col(f"{a}_lon")) / 2), F.lit(2))
    return 2 * 6371 / 1.609344 * F.asin(F.sqrt(half))


def run_plain(spark: SparkSession, data: Path, out: Path) -> dict[str, int]:
    from pyspark.sql import functions as F  # noqa: N812

    read = spark.read.option("header", True).option("quote", "")
    airports = read.option("sep", ";").csv(str(data / "airports.csv")).where("Latitude <> '\\\\N'")
    flights = (
        read.option("sep", ",")
        .csv(str(data / "itineraries.csv"))
        .withColumn("fare", F.col("totalFare").try_cast("double"))
        .withColumn("total", F.col("totalTravelDistance").try_cast("double"))
        .withColumn("arrivals", F.split("segmentsArrivalAirportCode", r"\|\|"))
        .cache()
    )
    results = {
        "q1": many(flights).select("legId", "startingAirport", "destinationAirport", "fare", "stopovers"),
        "q2": far(flights, airports),
        "q3": fastest(many(flights)),
        "q4": expensive(flights),
    }
    for name, result in results.items():
        result.write.option("header", True).csv(str(out / name))
    flights.unpersist()
    return {name: count_lines(out / name) for name in results}


def many(flights: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    stopovers = F.array_join(F.slice("arrivals", 1, F.size("arrivals") - 1), "||")
    return flights.where(F.size("arrivals") > 3).withColumn("stopovers", stopovers)


def far(flights: DataFrame, airports: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    def places(name: str) -> DataFrame:
        return airports.select(
            F.col("Airport Code").alias(f"{name}_code"),
            F.radians(F.col("Latitude").try_cast("double")).alias(f"{name}_lat"),
            F.radians(F.col("Longitude").try_cast("double")).alias(f"{name}_lon"),
        )

    ends = flights.join(places("a"), F.col("startingAirport") == F.col("a_code")).join(
        places("b"), F.col("destinationAirport") == F.col("b_code")
    )
    numbered = ends.where("total IS NULL").withColumn("id", F.monotonically_increasing_id())
    path = F.concat(F.array("startingAirport"), "arrivals")
    stops = numbered.select("id", F.posexplode(path).alias("n", "code"))
    here = stops.join(places("x"), F.col("code") == F.col("x_code"), "left").select(
        "id", "n", "x_lat", "x_lon"
    )
    there = stops.join(places("y"), F.col("code") == F.col("y_code"), "left").select(
        "id", (F.col("n") - 1).alias("n"), "y_lat", "y_lon"
    )
    legs = here.join(there, ["id", "n"]).withColumn("leg", miles("x", "y"))
    lengths = legs.groupBy("id").agg(F.when(F.count("leg") == F.count("*"), F.sum("leg")).alias("length"))
    completed = numbered.join(lengths, "id").withColumn("total", F.col("length"))
    columns = ["legId", "startingAirport", "destinationAirport", "total"]
    parts = [ends.where("total IS NOT NULL"), completed]
    return reduce(
        lambda one, other: one.union(other),
        [part.where(F.col("total") > 4 * miles("a", "b")).select(*columns) for part in parts],
    )


def fastest(flights: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    seconds = reduce(
        lambda total, part: total + part,
        [
            F.coalesce(F.regexp_extract("travelDuration", rf"(\d+){unit}", 1).try_cast("bigint"), F.lit(0))
            * value
            for unit, value in {"D": 86_400, "H": 3_600, "M": 60}.items()
        ],
    )
    route = ["startingAirport", "destinationAirport"]
    rank = F.row_number().over(Window.partitionBy(*route).orderBy(seconds, "legId", "fare"))
    ranked = flights.withColumn("rank", rank).where("rank <= 2").orderBy(*route, "rank")
    return ranked.select("legId", *route, "travelDuration", "stopovers")


def expensive(flights: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    row = flights.agg(F.avg("fare")).first()
    average = row[0] if row else 0.0
    route = ["startingAirport", "destinationAirport"]
    above = flights.where(F.col("fare") > average).groupBy(*route)
    return above.agg(F.avg("fare"), F.max("fare")).orderBy(*route)


def count_lines(folder: Path) -> int:
    """Each part has a header line."""
    return sum(
        len(part.read_text().splitlines()) - 1 for part in folder.glob("part-*.csv") if part.stat().st_size
    )


def main(data: str, out: str, master: str) -> None:
    """The script as its author starts it: a session, the queries, the end."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()
    print(run_plain(spark, Path(data), Path(out)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
