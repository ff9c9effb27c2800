// The gateway, the supervisor, the Flights service, dedicated controllers: processes that hold no partitions.

import { now } from "../../lib/clock";
import { isLocal } from "../../lib/console_info";
import { ago } from "../../lib/format";
import type { OtherNode } from "../../lib/types";
import { Badge, StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { killNode, killService, pauseNode, resumeNode } from "./questions";

export function ServiceCard({ node, isController }: { node: OtherNode; isController: boolean }) {
  const { id } = node;
  const name = typeof id === "number" ? `node ${id}` : id;
  return (
    <article class="card service" aria-label={name} data-testid={`node-${id}`}>
      <h2>{name}</h2>
      {isController && <Badge icon="crown">active controller</Badge>}
      <StateBadge state={node.state} />
      <span class="muted service-pid">
        {node.pid !== null && <span>pid {node.pid}</span>}
        <Heartbeat node={node} />
      </span>
      {isLocal() && typeof id === "number" && (
        <NodeButtons id={id} state={node.state} isDown={node.pid === null} />
      )}
      {/* A gateway or a supervisor that stands still could not be told to go on: only what comes back by itself. */}
      {isLocal() && typeof id === "string" && (
        <Button
          small
          icon="bolt"
          data-testid={`kill-${id}`}
          disabled={node.pid === null || node.state === "down"}
          onClick={() => void killService(id)}
        >
          Kill
        </Button>
      )}
    </article>
  );
}

/** Since when a service was not heard of; nothing of those that do not tell. */
function Heartbeat({ node }: { node: OtherNode }) {
  if (node.heartbeat_ms === undefined) return null;
  return <span data-testid={`heartbeat-${node.id}`}>heard {ago(node.heartbeat_ms, now.value)}</span>;
}

function NodeButtons({ id, state, isDown }: { id: number; state: string; isDown: boolean }) {
  return (
    <>
      {state === "paused" ? (
        <Button small icon="play" data-testid={`resume-${id}`} onClick={() => void resumeNode(id)}>
          Resume
        </Button>
      ) : (
        <Button
          small
          icon="pause"
          data-testid={`pause-${id}`}
          disabled={isDown}
          onClick={() => void pauseNode(id)}
        >
          Pause
        </Button>
      )}
      <Button
        small
        icon="bolt"
        data-testid={`kill-${id}`}
        disabled={isDown}
        onClick={() => void killNode(id, 0)}
      >
        Kill
      </Button>
    </>
  );
}
