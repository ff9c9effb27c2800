"""Which partition of `__consumer_offsets` holds a group: Kafka's own rule, so that its tools agree."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """`String.hashCode`: s[0]*31^(n-1) + … + s[n-1] over UTF-16 code units, in 32-bit signed arithmetic."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (value * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(group_id: str, partitions_count: int) -> int:
    value = java_hash(group_id)
    # Kafka takes 0 for the one number whose absolute value does not fit into 32 bits.
    return (0 if value == -(1 << 31) else abs(value)) % partitions_count
