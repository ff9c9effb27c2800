"""A local cluster of real processes: start them, watch them, start them again, stop them."""
