"""One module per Kafka API. Each defines one `Handler` with `@api`; `load_handlers` finds them all."""

from __future__ import annotations

import importlib
import pkgutil

from penstock.wire.registry import Handler


def load_handlers() -> list[Handler]:
    handlers = []
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        found = [value for value in vars(module).values() if isinstance(value, Handler)]
        if len(found) != 1:
            raise ImportError(f"{module.__name__} defines {len(found)} handlers instead of one")
        handlers += found
    return handlers
