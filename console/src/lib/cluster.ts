// The state of the cluster: one question for all pages, and what can be said from its answer.

import { get } from "./api";
import { Poll } from "./poll";
import { RateHistory } from "./rates";
import type { ClusterState, Partition, Topic } from "./types";
import { signal } from "@preact/signals";

const INTERVAL_MS = 1_000;

/** How fast messages come in, by topic; a new object after each answer. */
export const rates = signal(new RateHistory());

export const cluster = new Poll<ClusterState>(async (signal) => {
  const state = await get<ClusterState>("/v1/cluster", signal);
  rates.value = rates.peek().after(state.topics, Date.now());
  return state;
}, INTERVAL_MS);

/** Topics that Kafka and Penstock keep for themselves. */
export function isInternal(topic: string): boolean {
  return topic.startsWith("__");
}

/** Messages that were ever written, as far as partitions tell; null if none does. */
export function messagesSoFar(topics: Topic[]): number | null {
  const known = topics
    .flatMap((topic) => topic.partitions)
    .map((each) => each.high_watermark)
    .filter((each) => each !== null);
  return known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0);
}

/** Replicas that have fallen behind, or are away. */
export function notInSync(partition: Partition): number[] {
  return partition.replicas.filter((replica) => !partition.isr.includes(replica));
}

export function isUnderReplicated(partition: Partition): boolean {
  return notInSync(partition).length > 0;
}

export interface Health {
  brokersRunning: number;
  brokers: number;
  partitions: number;
  underReplicated: number;
  /** Partitions that nobody leads: they take no messages and give none. */
  leaderless: number;
}

export function healthOf(state: ClusterState): Health {
  const partitions = state.topics.flatMap((topic) => topic.partitions);
  return {
    brokersRunning: state.brokers.filter((broker) => broker.state === "running").length,
    brokers: state.brokers.length,
    partitions: partitions.length,
    underReplicated: partitions.filter(isUnderReplicated).length,
    leaderless: partitions.filter((partition) => partition.leader === null).length,
  };
}

/** In partitions: how many a broker leads, how many it has replicas of, and of those the ones not in sync. */
export interface Load {
  leads: number;
  holds: number;
  behind: number;
}

export const NO_LOAD: Load = { leads: 0, holds: 0, behind: 0 };

/** By the ids of the brokers. */
export function loads(topics: Topic[]): Map<number, Load> {
  const found = new Map<number, Load>();
  for (const partition of topics.flatMap((topic) => topic.partitions)) {
    for (const replica of partition.replicas) {
      const load = found.get(replica) ?? { ...NO_LOAD };
      load.holds += 1;
      if (partition.leader === replica) load.leads += 1;
      if (!partition.isr.includes(replica)) load.behind += 1;
      found.set(replica, load);
    }
  }
  return found;
}
