"""The few requests of the Kafka protocol that transactions need, on plain sockets.

librdkafka has transactions too. But a call of it that waits for a group's coordinator never returns when that
broker leaves the cluster's metadata (librdkafka issues 5456 and 5511), as one that is restarted does, and its
Python binding neither deletes offsets nor goes on as the same producer after an error.

They are written out here, as `penstock.wire` is the brokers' side. The tests hold every request and answer
against kio's schemas.
"""
