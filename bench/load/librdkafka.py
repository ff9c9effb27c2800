"""librdkafka's own C interface, as much of it as a producer at full speed needs.

The library is the one inside confluent-kafka's package. Its Python interface takes about a microsecond of the
interpreter for each message, more than any server here needs for one; given a prepared array, the library
enqueues a thousand messages in one call, and what is measured is the library and the server.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka

ERROR_TEXT_SIZE = 512
PRODUCER, CONF_OK = 0, 0


class Message(c.Structure):
    """rd_kafka_message_t"""

    _fields_ = (
        ("err", c.c_int),
        ("rkt", c.c_void_p),
        ("partition", c.c_int32),
        ("payload", c.c_void_p),
        ("len", c.c_size_t),
        ("key", c.c_void_p),
        ("key_len", c.c_size_t),
        ("offset", c.c_int64),
        ("private", c.c_void_p),
    )


DELIVERY_CALLBACK = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Message), c.c_void_p)


class LibrdkafkaError(Exception):
    pass


def _load() -> c.CDLL:
    package = Path(confluent_kafka.__file__).parent
    found = sorted(package.parent.glob("confluent_kafka.libs/librdkafka-*.so*"))
    library = c.CDLL(str(found[0]) if found else "librdkafka.so.1")
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (c.c_void_p, []),
        "rd_kafka_conf_set": (c.c_int, [c.c_void_p, c.c_char_p, c.c_char_p, c.c_char_p, c.c_size_t]),
        "rd_kafka_conf_set_dr_msg_cb": (None, [c.c_void_p, DELIVERY_CALLBACK]),
        "rd_kafka_new": (c.c_void_p, [c.c_int, c.c_void_p, c.c_char_p, c.c_size_t]),
        "rd_kafka_topic_new": (c.c_void_p, [c.c_void_p, c.c_char_p, c.c_void_p]),
        "rd_kafka_metadata": (c.c_int, [c.c_void_p, c.c_int, c.c_void_p, c.c_void_p, c.c_int]),
        "rd_kafka_metadata_destroy": (None, [c.c_void_p]),
        "rd_kafka_produce_batch": (c.c_int, [c.c_void_p, c.c_int32, c.c_int, c.POINTER(Message), c.c_int]),
        "rd_kafka_poll": (c.c_int, [c.c_void_p, c.c_int]),
        "rd_kafka_outq_len": (c.c_int, [c.c_void_p]),
        "rd_kafka_flush": (c.c_int, [c.c_void_p, c.c_int]),
    }
    for name, (result, parameters) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    return library


class BatchProducer:
    """Sends the same payload again and again; the memory it points to lives as long as this object."""

    def __init__(self, config: Mapping[str, object], topic: str, payload: bytes, batch: int) -> None:
        self._library = _load()
        self.failed = 0
        self._callback = DELIVERY_CALLBACK(self._delivered)
        text = c.create_string_buffer(ERROR_TEXT_SIZE)
        conf = self._library.rd_kafka_conf_new()
        # Only failures call back into Python.
        for name, value in {**config, "delivery.report.only.error": "true"}.items():
            pair = (name.encode(), str(value).encode())
            if self._library.rd_kafka_conf_set(conf, *pair, text, len(text)) != CONF_OK:
                raise LibrdkafkaError(text.value.decode())
        self._library.rd_kafka_conf_set_dr_msg_cb(conf, self._callback)
        self._handle = self._library.rd_kafka_new(PRODUCER, conf, text, len(text))
        if not self._handle:
            raise LibrdkafkaError(text.value.decode())
        self._topic = self._library.rd_kafka_topic_new(self._handle, topic.encode(), None)
        self._payload = c.create_string_buffer(payload, len(payload))
        address = c.addressof(self._payload)
        self._messages = (Message * batch)(
            *(Message(payload=address, len=len(payload)) for _ in range(batch))
        )

    def _delivered(self, _handle: int, message: c._Pointer[Message], _opaque: int) -> None:
        if message.contents.err:
            self.failed += 1

    def connect(self, timeout_ms: int) -> None:
        """Wait for the topic's metadata."""
        answer = c.c_void_p()
        where = (self._handle, 0, self._topic, c.byref(answer), timeout_ms)
        if error := self._library.rd_kafka_metadata(*where):
            raise LibrdkafkaError(f"no metadata: error {error}")
        self._library.rd_kafka_metadata_destroy(answer)

    def produce(self, partition: int) -> int:
        """Enqueue the whole batch without copying it; returns how many messages found room."""
        batch = (self._messages, len(self._messages))
        return int(self._library.rd_kafka_produce_batch(self._topic, partition, 0, *batch))

    def poll(self, timeout_ms: int) -> None:
        self._library.rd_kafka_poll(self._handle, timeout_ms)

    def outstanding(self) -> int:
        return int(self._library.rd_kafka_outq_len(self._handle))

    def flush(self, timeout_ms: int) -> int:
        """Returns how many messages are still not acknowledged."""
        self._library.rd_kafka_flush(self._handle, timeout_ms)
        return self.outstanding()
