"""The columns that go in and out, by name."""

from __future__ import annotations

from typing import Final

ITINERARY_COLUMNS: Final = (
    "legId",
    "startingAirport",
    "destinationAirport",
    "travelDuration",
    "totalFare",
    "totalTravelDistance",
    "segmentsArrivalAirportCode",
)
ITINERARY_DELIMITER: Final = ","
AIRPORT_COLUMNS: Final = ("Airport Code", "Latitude", "Longitude")
AIRPORT_DELIMITER: Final = ";"
SEGMENT_SEPARATOR: Final = "||"

RESULT_COLUMNS: Final = {
    "q1": ("legId", "startingAirport", "destinationAirport", "totalFare", "stopovers"),
    "q2": ("legId", "startingAirport", "destinationAirport", "totalTravelDistance"),
    "q3": ("legId", "startingAirport", "destinationAirport", "travelDuration", "stopovers"),
    "q4": ("startingAirport", "destinationAirport", "avgFare", "maxFare"),
}

EMPTY_LEG_ID: Final = "empty legId"
EMPTY_AIRPORT: Final = "empty airport"
UNPARSABLE_FARE: Final = "unparsable fare"
UNPARSABLE_DISTANCE: Final = "unparsable distance"
UNPARSABLE_DURATION: Final = "unparsable duration"
UNKNOWN_AIRPORT: Final = "unknown airport"
NO_SEGMENTS: Final = "no segments"
