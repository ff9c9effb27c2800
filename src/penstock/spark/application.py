"""A program on Spark: its name and configuration, which start Java before anything of Spark is imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark import launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Application:
    name: str
    config: Callable[[str | None], dict[str, str]]
    """Spark's configuration for a master."""

    def started(self, master: str | None) -> AbstractContextManager[launch.Java | None]:
        """Java for one session; it ends with this process."""
        return launch.started(
            master,
            app_name=self.name,
            config=self.config(master),
            environment=os.environ | launch.WITHOUT_DISCOVERY,
        )

    def session(
        self,
        master: str | None,
        java: launch.Java | None,
        *,
        config: Mapping[str, str] | None = None,
        with_source: bool = True,
    ) -> SparkSession:
        from penstock.spark import session

        return session(
            master,
            app_name=self.name,
            config={**self.config(master), **(config or {})},
            java=java,
            with_source=with_source,
        )
