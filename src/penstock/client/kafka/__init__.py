"""The library over the Kafka protocol, with librdkafka."""
