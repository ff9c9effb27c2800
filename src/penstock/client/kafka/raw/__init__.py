"""The few requests of the Kafka protocol that transactions need, on plain sockets.

librdkafka has transactions too. But a call of it that waits for a group's coordinator never returns when that
broker leaves the cluster's metadata (librdkafka issues 5456 and 5511), as one that is restarted does, and its
Python binding neither deletes offsets nor goes on as the same producer after an error.

They are written out here, and not in terms of `penstock.wire`: that is the brokers' side, and stands on kio's
schemas, whose import takes as long as all else that a command such as `penstock put` does. The tests hold
every request and answer against those schemas.
"""
