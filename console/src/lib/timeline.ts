// The cluster log, made readable: events without repetitions, and many that are one thing told as one. Pure.

import type { ClusterEvent } from "./types";

export const KEPT_MAX = 1_000;
/** What happens this close together, for the same reason, is one thing. */
const TOGETHER_MS = 1_500;

export type Category = "election" | "in-sync" | "process" | "topic" | "cluster";
export const CATEGORIES: readonly Category[] = ["election", "in-sync", "process", "topic", "cluster"];

/** One line of the timeline. */
export interface Entry {
  key: string;
  kind: string;
  category: Category;
  tone: "good" | "bad" | "plain";
  at: number;
  text: string;
  cause: string | undefined;
  /** All that it stands for, oldest first. */
  events: ClusterEvent[];
}

/** Known events and new ones, oldest first, each once: a stream that is opened again tells all of them. */
export function merge(
  known: readonly ClusterEvent[],
  incoming: readonly ClusterEvent[],
): readonly ClusterEvent[] {
  const keys = new Set(known.map(keyOf));
  const fresh = incoming.filter((event) => !keys.has(keyOf(event)) && keys.add(keyOf(event)));
  if (fresh.length === 0) return known;
  return [...known, ...fresh].sort((a, b) => a.timestamp_ms - b.timestamp_ms).slice(-KEPT_MAX);
}

/** Lines for people, newest first. */
export function entriesOf(events: readonly ClusterEvent[]): Entry[] {
  const entries: Entry[] = [];
  const open = new Map<string, Entry>();
  for (const event of events) {
    const sort = sortOf(event);
    const together = open.get(sort);
    if (together !== undefined && event.timestamp_ms - lastOf(together).timestamp_ms <= TOGETHER_MS) {
      together.events.push(event);
      together.text = textOf(together.events);
      continue;
    }
    const entry = entryOf(event);
    open.set(sort, entry);
    entries.push(entry);
  }
  return entries.reverse();
}

export function categoryOf(kind: string): Category {
  if (/^(controller_elected|leader_)/.test(kind)) return "election";
  if (kind.startsWith("isr_")) return "in-sync";
  if (/^(topic_|partitions_|reassignment_)/.test(kind)) return "topic";
  if (/^(broker_|node_)|_(started|ready|ended|adopted)$/.test(kind)) return "process";
  return "cluster";
}

function toneOf(kind: string): Entry["tone"] {
  if (/(_lost|_shrunk|_ended|_fenced)$/.test(kind) && kind !== "reassignment_ended") return "bad";
  if (/(_elected|_expanded|_ready|_unfenced)$/.test(kind)) return "good";
  return "plain";
}

function entryOf(event: ClusterEvent): Entry {
  return {
    key: keyOf(event),
    kind: event.kind,
    category: categoryOf(event.kind),
    tone: toneOf(event.kind),
    at: event.timestamp_ms,
    text: event.text,
    cause: event.cause,
    events: [event],
  };
}

function lastOf(entry: Entry): ClusterEvent {
  return entry.events[entry.events.length - 1] as ClusterEvent;
}

function keyOf(event: ClusterEvent): string {
  return `${event.source ?? ""}/${event.offset}/${event.text}`;
}

/** Events of partitions are one thing if the same nodes did the same for the same reason; others stand alone. */
function sortOf(event: ClusterEvent): string {
  if (event.partition === undefined) return keyOf(event);
  return [event.kind, event.cause ?? "", event.nodes.join()].join("/");
}

function textOf(events: ClusterEvent[]): string {
  const first = events[0] as ClusterEvent;
  const topics = [...new Set(events.map((event) => event.topic ?? "?"))];
  const where = topics.length === 1 ? topics[0] : `${topics.length} topics`;
  return `${events.length} partitions of ${where}: ${ACTIONS[first.kind]?.(first.nodes) ?? first.kind.replaceAll("_", " ")}`;
}

const ACTIONS: Record<string, (nodes: number[]) => string> = {
  leader_elected: (nodes) => `broker ${nodes[0] ?? "?"} leads now`,
  leader_lost: () => "nobody leads",
  isr_shrunk: () => "the in-sync set shrank",
  isr_expanded: () => "the in-sync set grew",
  replica_offline: (nodes) => `out of service on broker ${nodes[0] ?? "?"}`,
  replica_borrowed: (nodes) => `broker ${nodes[0] ?? "?"} helps out`,
  replica_given_back: (nodes) => `broker ${nodes[0] ?? "?"} is given back`,
  replica_online: (nodes) => `in service again on broker ${nodes[0] ?? "?"}`,
};
