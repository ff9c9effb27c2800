"""Names for clusters."""

from __future__ import annotations

import base64
import uuid


def new_cluster_id() -> str:
    """22 letters, as Kafka writes its own."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
