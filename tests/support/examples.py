"""How many examples Hypothesis tries of a property, and how many histories of a state machine.

They are other ones in every run, so that few are enough for each; `make soak` tries very many.
"""

from __future__ import annotations

import os
from typing import Final

EXAMPLES: Final = int(os.environ.get("PENSTOCK_EXAMPLES", "50"))
HISTORIES: Final = EXAMPLES * 3 // 2
"""Of machines whose steps depend on each other, so that a single history shows less."""
