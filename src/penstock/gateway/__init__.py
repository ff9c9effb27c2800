"""Penstock over HTTP: the topic queue, streams, what the console shows. A Kafka client and nothing else."""
