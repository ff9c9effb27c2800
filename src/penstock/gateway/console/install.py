"""The console on an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.console import pages, routes, viewer

if TYPE_CHECKING:
    from fastapi import FastAPI


def install(app: FastAPI) -> None:
    viewer.install(app)
    pages.install(app)
    app.include_router(routes.router)
