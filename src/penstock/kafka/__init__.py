"""The client side of the Kafka protocol: what a reader makes of the answer to a fetch. Knows no node."""
