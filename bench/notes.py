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
- HTTP produce: 32 connections on 8 topics, one message of 100 B a request, the next one when the last is
  acknowledged; the load generator is a bare protocol on uvloop. The plain server is the same endpoints in
  Flask with SQLAlchemy's pool, a thread for each connection (waitress, which keeps connections open; fewer
  threads were slower), one INSERT and one COMMIT for each message. It and Penstock with storage in
  PostgreSQL share one database server. All sides have a message on disk when they answer.
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
- Replicated produce: the same producer, three brokers of either side on this machine, each a controller
  too; flush=os and Kafka's defaults; replication factor 3, min.insync.replicas=2, the same brokers lead on
  both sides. A round counts only if all three replicas are in sync after it and hold logs of the same
  size. The three virtual machines of Kafka are loaded before anything counts, three times as long as a
  single one.
- Fail-over: a librdkafka producer writes 100 messages of 100 B a second with acks=all to a partition with
  three replicas; its leader is killed with -9. What counts is the time from there to the acknowledgement
  of a message that was written when the leader was gone. The client asks for metadata every 20 ms and
  retries and reconnects within 20 ms on both sides, so that its patience is not what is measured. All
  settings of the brokers are defaults (except flush=os), a leader that is the active controller too is a
  case of its own, and each round ends with the broker back in sync and every acknowledged message there.
- A paused leader, all nodes killed: `penstock up --brokers 3` as it is, and an idempotent librdkafka producer
  with no setting but its bootstrap servers, 100 messages of 100 B a second. The pause counts from the signal,
  which nobody takes back; the kill from when the supervisor has started the last of the processes again.
- Flights service: from the first chunk to the last row of all four results, through the gateway, by one
  client and by eight at once, after two rounds that do not count. DuckDB reads the same file from disk.
- p99 is reported, not judged: on a shared machine it is noise, and so are ratios below about 1.4 between two
  runs.
"""
