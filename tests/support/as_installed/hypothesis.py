"""In place of Hypothesis, for processes that tests start: where Penstock is installed there is none.

Kio imports it where it can, which is a third of the processor time of a broker's start.
"""

raise ImportError("only tests have Hypothesis")
