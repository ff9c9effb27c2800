"""The airports that generated itineraries fly between: real codes and roughly where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from penstock.pipelines.flights.geography import miles

SERVED: Final = (
    "ATL",
    "BOS",
    "CLT",
    "DEN",
    "DFW",
    "DTW",
    "EWR",
    "IAD",
    "JFK",
    "LAX",
    "LGA",
    "MIA",
    "OAK",
    "ORD",
    "PHL",
    "SFO",
)
"""Every route leads from one of these to another, as in the public data set."""

UNLISTED: Final = "MVY"
"""A stopover that the airports file does not know."""

CITIES: Final = (
    ("DFW", "DAL"),
    ("EWR", "JFK", "LGA"),
    ("BWI", "DCA", "IAD"),
    ("LAX", "ONT", "SNA"),
    ("FLL", "MIA"),
    ("OAK", "SFO", "SJC"),
)
"""Airports of one city: who searches for one of them is also offered flights of the others."""


@dataclass(frozen=True, slots=True)
class Place:
    code: str
    name: str
    latitude: float
    longitude: float

    @property
    def utc_offset_hours(self) -> int:
        """Summer time, by longitude: good enough for a departure board that nobody waits at."""
        for western_edge, hours in ((-87.5, -4), (-101.5, -5), (-114.0, -6)):
            if self.longitude > western_edge:
                return hours
        return -7


def miles_between(start: Place, end: Place) -> float:
    return miles(
        (math.radians(start.latitude), math.radians(start.longitude)),
        (math.radians(end.latitude), math.radians(end.longitude)),
    )


_TABLE: Final = """
ATL Atlanta 33.6367 -84.4281
AUS Austin 30.1944 -97.67
BNA Nashville 36.1244 -86.6781
BOI Boise 43.5644 -116.2228
BOS Boston 42.3631 -71.0
BUF Buffalo 42.9405 -78.7322
BWI Baltimore 39.1753 -76.6683
CHS Charleston 32.8986 -80.0405
CLE Cleveland 41.4167 -81.85
CLT Charlotte 35.2167 -80.9333
CMH Columbus 40.0 -82.8833
CVG Cincinnati 39.0489 -84.6678
DAL Dallas Love Field 32.8528 -96.85
DCA Washington National 38.8519 -77.0378
DEN Denver 39.8617 -104.6731
DFW Dallas/Fort Worth 32.8969 -97.0381
DTW Detroit 42.2125 -83.3533
EWR Newark 40.6925 -74.1686
FLL Fort Lauderdale 26.0725 -80.1528
GEG Spokane 47.6197 -117.5339
IAD Washington Dulles 38.9444 -77.4558
IAH Houston 29.9844 -95.3414
IND Indianapolis 39.7172 -86.2947
JAX Jacksonville 30.4167 -81.6333
JFK New York Kennedy 40.6333 -73.7833
LAS Las Vegas 36.0833 -115.1667
LAX Los Angeles 33.9425 -118.4072
LGA New York La Guardia 40.7667 -73.8667
MCI Kansas City 39.2917 -94.7306
MCO Orlando 28.4294 -81.3089
MIA Miami 25.7833 -80.2667
MSP Minneapolis 44.8833 -93.2169
MSY New Orleans 29.9933 -90.2581
MVY Martha's Vineyard 41.3931 -70.6143
OAK Oakland 37.7167 -122.2167
OKC Oklahoma City 35.3931 -97.6008
ONT Ontario 34.0561 -117.6011
ORD Chicago O'Hare 41.9786 -87.9047
PDX Portland 45.5886 -122.5975
PHL Philadelphia 39.8719 -75.2411
PHX Phoenix 33.4333 -112.0333
PIT Pittsburgh 40.4914 -80.2328
RDU Raleigh-Durham 35.8778 -78.7875
RIC Richmond 37.5 -77.3167
SAN San Diego 32.7333 -117.1833
SAT San Antonio 29.5337 -98.4698
SEA Seattle 47.4489 -122.3094
SFO San Francisco 37.6189 -122.375
SJC San José 37.3626 -121.929
SLC Salt Lake City 40.7883 -111.9667
SNA Santa Ana 33.6667 -117.8667
STL Saint Louis 38.7486 -90.37
TPA Tampa 27.9756 -82.5331
"""


def _place(line: str) -> Place:
    code, *name, latitude, longitude = line.split()
    return Place(code, " ".join(name), float(latitude), float(longitude))


PLACES: Final = {place.code: place for place in map(_place, _TABLE.strip().splitlines())}
