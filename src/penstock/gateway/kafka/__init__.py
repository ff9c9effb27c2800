"""The gateway's Kafka clients. Nothing here knows whether the other side is Penstock or Apache Kafka."""
