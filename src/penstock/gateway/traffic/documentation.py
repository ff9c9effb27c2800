"""What OpenAPI says about the endpoints of traffic."""

from __future__ import annotations

from typing import Any, Final

from penstock.gateway.routes import documentation as doc
from penstock.traffic.position import CAR_CHARACTERS_MAX, FUTURE_MS_MAX, SPEED_KMH_MAX, TS_MS_MAX

CAR: Final[doc.Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": CAR_CHARACTERS_MAX,
    "description": "The car that asks: one that has contributed a position lately.",
    "examples": ["taxi-7"],
}
BOX: Final[doc.Schema] = {
    "type": "string",
    "description": "`W,S,E,N` in degrees: only cells whose center lies there. West of the date line and east "
    "of it is one box, with W greater than E.",
    "examples": ["-123.16,49.2,-123.0,49.3"],
}
MILLISECONDS: Final[doc.Schema] = {**doc.NUMBER, "description": "milliseconds since 1970"}
POSITION: Final = doc.thing(
    "speed",
    "heading",
    "ts",
    car={
        "oneOf": [
            {"type": "string", "minLength": 1, "maxLength": CAR_CHARACTERS_MAX},
            {"type": "integer", "minimum": 0, "maximum": 2**53},
        ]
    },
    lat={"type": "number", "minimum": -90, "maximum": 90},
    lon={"type": "number", "minimum": -180, "maximum": 180},
    speed={"type": "number", "minimum": 0, "maximum": SPEED_KMH_MAX, "default": 0, "description": "km/h"},
    heading={
        "type": "number",
        "minimum": 0,
        "maximum": 360,
        "default": 0,
        "description": "degrees, clockwise from north",
    },
    ts={
        "type": "integer",
        "minimum": 0,
        "maximum": TS_MS_MAX,
        "description": "milliseconds since 1970, by default now; at most "
        f"{FUTURE_MS_MAX // 1000} s ahead of the gateway's clock",
    },
)
POSITIONS: Final[doc.Schema] = {"oneOf": [POSITION, doc.several(POSITION)]}
WRITTEN: Final = doc.thing(status={"const": "success"}, written=doc.NUMBER)
WINDOW: Final[doc.Schema] = {**doc.thing(start=MILLISECONDS, end=MILLISECONDS), "type": ["object", "null"]}
HEAT: Final = doc.thing(
    row=doc.NUMBER,
    col=doc.NUMBER,
    lat={"type": "number", "description": "of the cell's center"},
    lon={"type": "number"},
    count={**doc.NUMBER, "description": "positions in this cell and window so far"},
    speed={"type": ["number", "null"], "description": "their mean in km/h; null without any"},
)
TOTALS: Final[doc.Schema] = {
    **doc.thing(
        sent=doc.NUMBER,
        counted=doc.NUMBER,
        late=doc.NUMBER,
        duplicate=doc.NUMBER,
        malformed=doc.NUMBER,
        reasons=doc.by_name(doc.NUMBER),
        newest=doc.NUMBER_OR_NULL,
        watermark=doc.NUMBER_OR_NULL,
    ),
    "type": ["object", "null"],
}
HEAT_MAP: Final = doc.thing(
    window=WINDOW,
    cells=doc.several(HEAT),
    newest={**doc.NUMBER_OR_NULL, "description": "the ts of the newest position that was counted"},
    totals=TOTALS,
)
GRID: Final = doc.thing(
    bbox={"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
    rows=doc.NUMBER,
    cols=doc.NUMBER,
    cells={**doc.NUMBER, "description": "heat cells along one side of a quadrant"},
)
STREETS: Final = doc.thing(
    type={"const": "FeatureCollection"}, features=doc.several(doc.ANY_OBJECT), grid=GRID
)


def for_participants(description: str, schema: doc.Schema, **options: Any) -> dict[int | str, doc.Schema]:
    documented = doc.responses(description, schema, **options)
    refused = "The car has not contributed a position lately, or the token does not allow it"
    return documented | {403: documented[403] | {"description": refused}}
