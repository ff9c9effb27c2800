"""The four queries of the Flights job in DuckDB: one parse into a narrow table, then SQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

MILES = """2 * 6371 / 1.609344 * asin(sqrt(least(1, pow(sin(({b}.lat - {a}.lat) / 2), 2)
    + cos({a}.lat) * cos({b}.lat) * pow(sin(({b}.lon - {a}.lon) / 2), 2))))"""
SECONDS = " + ".join(
    f"coalesce(try_cast(regexp_extract(duration, '(\\d+){unit}', 1) AS bigint), 0) * {seconds}"
    for unit, seconds in {"D": 86_400, "H": 3_600, "M": 60}.items()
)

TABLES = r"""
CREATE TEMP TABLE airports AS
SELECT "Airport Code" AS code, radians(try_cast(Latitude AS double)) AS lat,
       radians(try_cast(Longitude AS double)) AS lon
FROM read_csv('{data}/airports.csv', delim=';', header=true, all_varchar=true, quote='', nullstr='\N')
WHERE try_cast(Latitude AS double) IS NOT NULL;
CREATE TEMP TABLE flights AS
SELECT legId AS leg, startingAirport AS a, destinationAirport AS b, travelDuration AS duration,
       try_cast(totalFare AS double) AS fare, try_cast(totalTravelDistance AS double) AS total,
       segmentsArrivalAirportCode AS arrivals
FROM read_csv('{data}/itineraries.csv', delim=',', header=true, all_varchar=true, quote='');
"""
LENGTHS = f"""
CREATE TEMP TABLE lengths AS
WITH paths AS (SELECT DISTINCT a, arrivals FROM flights WHERE total IS NULL),
stops AS (SELECT a, arrivals, unnest(list_prepend(a, string_split(arrivals, '||'))) AS code,
                 generate_subscripts(list_prepend(a, string_split(arrivals, '||')), 1) AS n FROM paths),
places AS (SELECT stops.a, stops.arrivals, n, lat, lon FROM stops LEFT JOIN airports USING (code))
SELECT x.a, x.arrivals, CASE WHEN count(*) = count(y.lat) AND count(*) = count(x.lat)
                        THEN sum({MILES.format(a="x", b="y")}) END AS length
FROM places x JOIN places y ON x.a = y.a AND x.arrivals = y.arrivals AND y.n = x.n + 1 GROUP BY ALL
"""
MANY = "FROM flights WHERE len(string_split(arrivals, '||')) > 3"
STOPOVERS = "array_to_string(string_split(arrivals, '||')[:-2], '||') AS stopovers"
QUERIES = {
    "q1": f"SELECT leg, a, b, fare, {STOPOVERS} {MANY}",
    "q2": f"""SELECT leg, f.a, f.b, coalesce(total, length) FROM flights f
              JOIN airports s ON f.a = s.code JOIN airports e ON f.b = e.code
              LEFT JOIN lengths ON total IS NULL AND f.a = lengths.a AND f.arrivals = lengths.arrivals
              WHERE coalesce(total, length) > 4 * {MILES.format(a="s", b="e")}""",
    "q3": f"""SELECT leg, a, b, duration, {STOPOVERS} {MANY}
              QUALIFY row_number() OVER (PARTITION BY a, b ORDER BY {SECONDS}, leg, fare) <= 2
              ORDER BY a, b, {SECONDS}, leg, fare""",
    "q4": """SELECT a, b, avg(fare), max(fare) FROM flights
             WHERE fare > (SELECT avg(fare) FROM flights) GROUP BY a, b ORDER BY a, b""",
}


def run_duckdb(database: duckdb.DuckDBPyConnection, data: Path, out: Path, threads: int) -> dict[str, int]:
    out.mkdir()
    database.execute(f"SET threads = {threads}")
    database.execute(TABLES.format(data=data))
    database.execute(LENGTHS)
    counts = {}
    for name, query in QUERIES.items():
        row = database.execute(f"COPY ({query}) TO '{out}/{name}.csv' (HEADER)").fetchone()
        counts[name] = int(row[0]) if row else 0
    return counts
