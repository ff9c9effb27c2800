// Whether what the console shows is what is. The question about the cluster is asked all the time; how it fares
// tells of the connection.

import { computed } from "@preact/signals";
import { cluster } from "./cluster";
import { ApiError, messageOf, needsToken } from "./failure";
import type { Resource } from "./poll";

export type Connection =
  | { kind: "connecting" }
  | { kind: "connected" }
  /** `unreachable`: no gateway. `refused`: it wants a token. `failing`: it answers, but can not tell. */
  | { kind: "unreachable" | "refused" | "failing"; since: number; message: string; retryAt: number | null };

export function connectionOf(resource: Resource<unknown>): Connection {
  const { failure, failingSince, retryAt } = resource;
  if (failure === null) return { kind: resource.at === null ? "connecting" : "connected" };
  const kind = needsToken(failure) ? "refused" : failure instanceof ApiError ? "failing" : "unreachable";
  return { kind, since: failingSince ?? Date.now(), message: messageOf(failure), retryAt };
}

export const connection = computed(() => connectionOf(cluster.state.value));
