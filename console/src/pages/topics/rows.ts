// The list of topics, out of the state of the cluster. Pure.

import { isInternal, isUnderReplicated } from "../../lib/cluster";
import type { Topic } from "../../lib/types";

export interface TopicRow {
  readonly name: string;
  readonly partitions: number;
  /** Of the partition that has most. */
  readonly replicas: number;
  /** Sum of the high watermarks; null where some are not known. */
  readonly messages: number | null;
  readonly underReplicated: number;
  readonly leaderless: number;
  readonly isInternal: boolean;
}

export function rowOf(topic: Topic): TopicRow {
  const { partitions } = topic;
  return {
    name: topic.name,
    partitions: partitions.length,
    replicas: Math.max(0, ...partitions.map((each) => each.replicas.length)),
    messages: sum(partitions.map((each) => each.high_watermark)),
    underReplicated: partitions.filter(isUnderReplicated).length,
    leaderless: partitions.filter((each) => each.leader === null).length,
    isInternal: isInternal(topic.name),
  };
}

/** All words have to be in the name, in whatever order. */
export function filterRows(rows: readonly TopicRow[], words: string, withInternal: boolean): TopicRow[] {
  const wanted = words
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  return rows.filter(
    (row) =>
      (withInternal || !row.isInternal) && wanted.every((word) => row.name.toLowerCase().includes(word)),
  );
}

function sum(values: readonly (number | null)[]): number | null {
  return values.reduce<number | null>(
    (total, value) => (total === null || value === null ? null : total + value),
    0,
  );
}
