"""Publishers and subscribers as processes that are killed at random, and the checker of what they got."""
