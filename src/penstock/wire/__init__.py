"""The Kafka protocol as pure code: bytes in, values out; values in, bytes out."""
