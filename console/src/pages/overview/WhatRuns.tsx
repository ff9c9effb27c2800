import { now } from "../../lib/clock";
import { loads } from "../../lib/cluster";
import { ago, count } from "../../lib/format";
import { href } from "../../lib/router";
import type { ClusterState, OtherNode } from "../../lib/types";
import { Badge, StateBadge } from "../../ui/Badge";
import { Card } from "../../ui/Page";

/** Every process of the cluster that the gateway knows of. */
export function WhatRuns({ state }: { state: ClusterState }) {
  const load = loads(state.topics);
  return (
    <Card title="What runs" aside={<a href={href("cluster")}>Cluster</a>}>
      <ul class="processes">
        {state.brokers.map((broker) => (
          <li key={broker.id}>
            <span class="process-name">
              <strong>Broker {broker.id}</strong>
              {broker.id === state.controller && <Badge icon="crown">controller</Badge>}
            </span>
            <span class="muted process-note">leads {count(load.get(broker.id)?.leads ?? 0)}</span>
            <StateBadge state={broker.state} />
          </li>
        ))}
        {(state.nodes ?? []).map((node) => (
          <li key={node.id}>
            <span class="process-name">
              <strong>{typeof node.id === "number" ? `Node ${node.id}` : titled(node.id)}</strong>
              {node.id === state.controller && <Badge icon="crown">controller</Badge>}
            </span>
            <span class="muted process-note">{noteOf(node)}</span>
            <StateBadge state={node.state} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Of a service that tells, when it was last heard of counts for more than its number. */
function noteOf({ pid, state, heartbeat_ms }: OtherNode): string {
  if (heartbeat_ms !== undefined && state !== "running") return `heard ${ago(heartbeat_ms, now.value)}`;
  return pid === null ? "no process" : `process ${pid}`;
}

function titled(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
