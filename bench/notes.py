"""How the figures were taken, as the written table says it."""

from __future__ import annotations

from typing import Final

NOTES: Final = """\
- Each figure is the median of the rounds; each ratio is the median of the rounds' own ratios. Rounds of the
  sides alternate, after a first round that warms up and does not count.
- A server and the client that loads it are separate processes on the loopback of one machine and share its
  cores. Every load is bounded in messages and in time.
- Penstock, Kafka and the sink get the same librdkafka producer: acks=all, linger 5 ms, batches up to 1 MB,
  5 requests in flight, no compression, no idempotence.
- That producer runs librdkafka from C, so that Python is not what limits it. Where Penstock stands beside
  Redis, NATS and RabbitMQ, every side uses its Python client: Penstock confluent-kafka's `produce_batch` and
  `consume`.
- The raw sink reads the same frames, writes them to a file and gives canned answers; it checks nothing and
  keeps no offsets.
- Kafka runs with its defaults and the options its start script gives the JVM, without a logging
  backend. It is loaded for some seconds after its start, before anything counts: a cold JVM is no fair peer.
- Redis: XADD in pipelines of 1,000, XREAD of 1,000. NATS: up to 4,000 publishes not yet acknowledged, ordered
  consumer. RabbitMQ: up to 4,000 publishes not yet confirmed (pika's callback interface), consumer with
  automatic acknowledgement.
- NATS leaves fsync to a timer and stands beside flush=os; RabbitMQ confirms a persistent message once it is
  on disk and stands beside flush=commit.
- Latency counts from when a message was due, in the second half of each run, after both servers were warmed
  up. It is not judged when the load generator itself ran late.
- p99 is reported, not judged: on a shared machine it is noise, and so are ratios below about 1.4 between two
  runs.
"""
