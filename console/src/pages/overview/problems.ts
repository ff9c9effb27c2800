// What is not as it should be, in words. Pure.

import { healthOf } from "../../lib/cluster";
import { plural } from "../../lib/format";
import type { ClusterState } from "../../lib/types";

export function problemsOf(state: ClusterState): string[] {
  const health = healthOf(state);
  const problems = state.brokers
    .filter((broker) => broker.state !== "running")
    .map((broker) => `Broker ${broker.id} is ${broker.state}.`);
  for (const node of state.nodes ?? [])
    if (node.heartbeat_ms !== undefined && (node.state === "late" || node.state === "down"))
      problems.push(`The ${node.id} service is ${node.state === "late" ? "late with its heartbeat" : "down"}.`);
  if (state.controller === null)
    problems.push("There is no active controller: topics can not be created or changed now.");
  if (health.leaderless > 0)
    problems.push(
      `${plural(health.leaderless, "partition")} without a leader: reads and writes of them wait.`,
    );
  if (health.underReplicated > 0)
    problems.push(`${plural(health.underReplicated, "partition")} with replicas that are not in sync.`);
  return problems;
}
