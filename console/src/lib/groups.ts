// Consumer groups, and how their lag went.

import { signal } from "@preact/signals";
import { get } from "./api";
import { Poll } from "./poll";
import type { Group, Groups } from "./types";

const INTERVAL_MS = 2_000;
const SAMPLES_MAX = 60;

export type LagHistory = ReadonlyMap<string, readonly number[]>;

/** Lag of each group, oldest first. */
export const lagHistory = signal<LagHistory>(new Map());

export const groups = new Poll<Group[]>(async (signal) => {
  const told = (await get<Groups>("/v1/groups", signal)).groups;
  lagHistory.value = withSample(lagHistory.peek(), told);
  return told;
}, INTERVAL_MS);

/** The history with one more answer; groups that are gone are forgotten. */
export function withSample(history: LagHistory, groups: readonly Group[]): LagHistory {
  return new Map(
    groups.map((each) => [each.group, [...(history.get(each.group) ?? []), each.lag].slice(-SAMPLES_MAX)]),
  );
}

/** Partitions of a group by topic, in order. */
export function byTopic(group: Group): [string, Group["partitions"]][] {
  const found = new Map<string, Group["partitions"]>();
  for (const partition of group.partitions)
    found.set(partition.topic, [...(found.get(partition.topic) ?? []), partition]);
  for (const partitions of found.values()) partitions.sort((a, b) => a.partition - b.partition);
  return [...found].sort(([a], [b]) => a.localeCompare(b));
}
