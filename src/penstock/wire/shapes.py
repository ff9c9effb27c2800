"""One shape per API for all its versions.

kio has a class for each version of each message. Handlers should not: they see every request in the shape
of the newest version that Penstock serves, and answer with plain nested mappings in the fields of any
served version. `lift` brings an older request up (fields that did not exist yet get the protocol's
defaults), `lower` turns an answer into the class of the version that was asked for (fields that the
version does not have are left out, those not given get their defaults).
"""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from kio.schema.errors import ErrorCode

Body = Mapping[str, Any]

NO_TIME = datetime.timedelta(0)

_IMPLICIT_DEFAULTS: dict[str, object] = {
    "string": "", "bytes": b"", "records": b"", "bool": False, "float64": 0.0, "uuid": None,
    "error_code": ErrorCode.none, "timedelta_i32": NO_TIME, "timedelta_i64": NO_TIME,
    "datetime_i64": None,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    name: str
    default: object
    entity: type | None  # of a nested struct, or of the items of an array of structs
    is_array: bool
    is_nullable: bool


@cache
def fields_of(entity_type: type) -> tuple[Field, ...]:
    hints = typing.get_type_hints(entity_type)
    return tuple(_describe(field, hints[field.name]) for field in dataclasses.fields(entity_type))


def _describe(field: dataclasses.Field[object], hint: Any) -> Field:
    arguments = [hint]
    optional = False
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        arguments = [argument for argument in typing.get_args(hint) if argument is not types.NoneType]
        optional = True
    is_array = typing.get_origin(arguments[0]) is tuple
    item = typing.get_args(arguments[0])[0] if is_array else arguments[0]
    entity = item if dataclasses.is_dataclass(item) else None
    default: object
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif optional:
        default = None
    elif is_array:
        default = ()
    elif entity is not None:
        default = None
    else:
        default = _IMPLICIT_DEFAULTS.get(field.metadata.get("kafka_type", ""), 0)
    return Field(field.name, default, cast("type | None", entity), is_array, optional)


@cache
def names_in(entity_type: type) -> frozenset[str]:
    """All field names of a message, nested ones included; guards against misspelt answers."""
    names = set()
    for field in fields_of(entity_type):
        names.add(field.name)
        if field.entity is not None:
            names |= names_in(field.entity)
    return frozenset(names)


@cache
def same_shape(left: type, right: type) -> bool:
    left_fields, right_fields = fields_of(left), fields_of(right)
    return [field.name for field in left_fields] == [field.name for field in right_fields] and all(
        one.entity is None or (other.entity is not None and same_shape(one.entity, other.entity))
        for one, other in zip(left_fields, right_fields, strict=True)
    )


def missing_array(entity: Any) -> str | None:
    """The name of an array that is null and may not be; kio reads such a request without complaint."""
    for field in _arrays_of(cast("type", type(entity))):
        value = getattr(entity, field.name)
        if value is None:
            if not field.is_nullable:
                return field.name
        elif field.entity is not None and _arrays_of(field.entity):
            for item in value:
                if (name := missing_array(item)) is not None:
                    return name
    return None


@cache
def _arrays_of(entity_type: type) -> tuple[Field, ...]:
    return tuple(field for field in fields_of(entity_type) if field.is_array)


def lift(entity: Any, target: type) -> Any:
    """The entity in the shape of `target`, a newer version of the same message."""
    source = cast("type", type(entity))
    if same_shape(source, target):
        return entity  # attribute access is all that handlers do, so the older class serves as it is
    return _lifter(source, target)(entity)


@cache
def _lifter(source: type, target: type) -> Callable[[Any], Any]:
    old = {field.name: field for field in fields_of(source)}
    steps: list[tuple[str, Field | None, Any]] = []
    for field in fields_of(target):
        known = old.get(field.name)
        nested = None
        if known is not None and field.entity is not None and known.entity is not None:
            nested = _lifter(known.entity, field.entity)
        steps.append((field.name, known, nested if known is not None else field.default))

    def lift_entity(entity: Any) -> Any:
        values = {}
        for name, known, step in steps:
            if known is None:
                values[name] = step
                continue
            value = getattr(entity, name)
            if step is not None and value is not None:
                value = tuple(map(step, value)) if known.is_array else step(value)
            values[name] = value
        return target(**values)

    return lift_entity


def lower(body: Body, target: type, known_names: frozenset[str]) -> Any:
    """The entity of class `target` that says what `body` says.

    `known_names` are the names of all served versions: a name that is in none of them is a mistake.
    """
    unknown = body.keys() - known_names
    if unknown:
        raise KeyError(f"{target.__name__} has no field {sorted(unknown)} in any served version")
    values = {}
    for field in fields_of(target):
        value = body.get(field.name, field.default)
        if field.entity is not None and value is not None:
            if field.is_array:
                value = tuple(lower(item, field.entity, known_names) for item in value)
            elif isinstance(value, Mapping):
                value = lower(value, field.entity, known_names)
        elif field.is_array and value is not None:
            value = tuple(value)
        values[field.name] = value
    return target(**values)
