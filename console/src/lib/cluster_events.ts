// What happens in the cluster, live. Followed while somebody looks; known events stay.

import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { followStream, type StreamState } from "./stream";
import { entriesOf, merge } from "./timeline";
import type { ClusterEvent } from "./types";

const events = signal<readonly ClusterEvent[]>([]);

export const entries = computed(() => entriesOf(events.value));
export const eventStream = signal<StreamState>({ kind: "connecting" });

let users = 0;
let stop: (() => void) | undefined;

/** Follows while the component is there. */
export function useClusterEvents(): void {
  useEffect(() => {
    users += 1;
    if (users === 1) stop = follow();
    return () => {
      users -= 1;
      if (users === 0) stop?.();
    };
  }, []);
}

function follow(): () => void {
  let waiting: ClusterEvent[] = [];
  let isPlanned = false;
  // The first answer is the whole log, an event at a time: it is merged once, not a thousand times.
  const flush = (): void => {
    isPlanned = false;
    events.value = merge(events.peek(), waiting);
    waiting = [];
  };
  return followStream("/v1/cluster/events", {
    onEvent: ({ data }) => {
      const event = parseEvent(data);
      if (event === null) return;
      waiting.push(event);
      if (isPlanned) return;
      isPlanned = true;
      setTimeout(flush, 0);
    },
    onState: (state) => {
      eventStream.value = state;
    },
  });
}

/** What has not the shape of an event is not one, such as the reason why a stream ends. */
export function parseEvent(data: string): ClusterEvent | null {
  let told: unknown;
  try {
    told = JSON.parse(data);
  } catch {
    return null;
  }
  if (typeof told !== "object" || told === null) return null;
  const event = told as Partial<ClusterEvent>;
  const isEvent =
    typeof event.offset === "number" &&
    typeof event.timestamp_ms === "number" &&
    typeof event.kind === "string" &&
    typeof event.text === "string";
  return isEvent ? ({ nodes: [], ...event } as ClusterEvent) : null;
}
