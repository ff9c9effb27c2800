import type { ClusterState } from "../../lib/types";

/** Commands look for the usual address; another one has to be said. */
export function optionsFor(state: ClusterState): string {
  const first = state.brokers[0];
  return first === undefined || first.port === 9092 ? "" : ` --bootstrap ${first.host}:${first.port}`;
}
