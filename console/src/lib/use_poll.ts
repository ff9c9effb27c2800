// Polls in components.

import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get } from "./api";
import { Poll, type Resource } from "./poll";

/** Answers of a shared poll while the component is there. */
export function usePoll<T>(poll: Poll<T>): ReadonlySignal<Resource<T>> {
  useEffect(() => poll.start(), [poll]);
  return poll.state;
}

export interface Polled<T> {
  resource: Resource<T>;
  refresh: () => void;
}

/** Answers to GET `path`, asked every `intervalMs`, while the component is there. Another path starts anew. */
export function usePolledPath<T>(path: string, intervalMs: number): Polled<T> {
  const poll = useMemo(() => new Poll<T>((signal) => get<T>(path, signal), intervalMs), [path, intervalMs]);
  const state = usePoll(poll);
  return { resource: state.value, refresh: () => poll.refresh() };
}
