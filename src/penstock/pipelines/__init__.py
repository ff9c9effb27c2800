"""What runs on Spark: Kafka clients and readers of files, which know nothing of the broker's inside."""
