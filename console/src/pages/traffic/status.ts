// What the page says about itself. Pure.

import { ApiError } from "../../lib/failure";
import type { StreamState } from "../../lib/stream";

/** Nothing new for so long is worth a word. */
export const STALE_MS = 10_000;
/** A stream that is open sends what there is at once; if nothing comes there is nothing. */
export const EMPTY_MS = 1_200;

export interface Facts {
  readonly now: number;
  readonly stream: StreamState;
  /** When the stream was opened last; null while it is not. */
  readonly openedAt: number | null;
  /** Whether there are windows to show. */
  readonly hasHeat: boolean;
  /** When event time went on last, by this browser's clock. */
  readonly advancedAt: number | null;
  /** Refusals one after the other. The first one may only mean that the gateway has started anew. */
  readonly refusals: number;
}

export type Status =
  | { readonly kind: "loading" }
  | { readonly kind: "empty" }
  | { readonly kind: "live" }
  | { readonly kind: "stale"; readonly since: number }
  | { readonly kind: "disconnected"; readonly message: string }
  | { readonly kind: "refused"; readonly message: string }
  | { readonly kind: "failed"; readonly failure: Error };

export function statusOf(facts: Facts): Status {
  const { stream, now } = facts;
  if (stream.kind === "waiting" || stream.kind === "ended") {
    const { failure } = stream;
    if (isRefusal(failure)) {
      if (facts.refusals > 1) return { kind: "refused", message: failure.message };
      return facts.hasHeat ? { kind: "disconnected", message: failure.message } : { kind: "loading" };
    }
    if (facts.hasHeat) return { kind: "disconnected", message: failure.message };
    return failure instanceof ApiError
      ? { kind: "failed", failure }
      : { kind: "disconnected", message: failure.message };
  }
  if (!facts.hasHeat) {
    const isSilent = facts.openedAt !== null && now - facts.openedAt >= EMPTY_MS;
    return { kind: stream.kind === "open" && isSilent ? "empty" : "loading" };
  }
  if (facts.advancedAt !== null && now - facts.advancedAt > STALE_MS)
    return { kind: "stale", since: facts.advancedAt };
  return { kind: "live" };
}

export function isRefusal(failure: Error): boolean {
  return failure instanceof ApiError && (failure.status === 401 || failure.status === 403);
}
