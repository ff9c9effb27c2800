"""What to do after an error in the middle of a transaction."""

from __future__ import annotations

from enum import Enum
from typing import Final

from confluent_kafka import KafkaError

from penstock.client.kafka.failures import PASSING, UNKNOWN_TOPIC

HOPELESS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.INVALID_CONFIG,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)
"""What fails the same way however often it is tried."""
FORGOTTEN: Final = frozenset({KafkaError.INVALID_PRODUCER_ID_MAPPING})
SAME_REQUEST: Final = (
    PASSING
    | UNKNOWN_TOPIC
    | {
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


class Verdict(Enum):
    AGAIN = "the same request may succeed"
    HOPELESS = "it will fail again"
    FORGOTTEN = "the coordinator knows this producer no longer: it begins as a new one"
    RENEW = "this transaction is over; the coordinator says whether this producer may begin another"


def verdict(code: int) -> Verdict:
    """A fence is not told by the partitions and the transaction, but by the coordinator when it is asked."""
    if code in SAME_REQUEST:
        return Verdict.AGAIN
    if code in HOPELESS:
        return Verdict.HOPELESS
    if code in FORGOTTEN:
        return Verdict.FORGOTTEN
    return Verdict.RENEW
