import type { Load } from "../../lib/cluster";
import { isLocal } from "../../lib/console_info";
import { count } from "../../lib/format";
import type { Broker } from "../../lib/types";
import { Badge, StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { killNode, pauseNode, resumeNode } from "./questions";

interface Props {
  broker: Broker;
  load: Load;
  isController: boolean;
}

export function BrokerCard({ broker, load, isController }: Props) {
  const { leads, holds, behind } = load;
  return (
    <article
      class={`card broker broker-${broker.state}`}
      aria-label={`Broker ${broker.id}`}
      data-testid={`broker-${broker.id}`}
    >
      <header class="broker-head">
        <h2>Broker {broker.id}</h2>
        <StateBadge state={broker.state} />
      </header>
      <p class="broker-roles">
        {broker.roles
          .filter((role) => role !== "controller" || !isController)
          .map((role) => (
            <Badge key={role}>{role}</Badge>
          ))}
        {isController && <Badge icon="crown">active controller</Badge>}
      </p>
      <dl class="facts">
        <Fact name="Leads" value={count(leads)} />
        <Fact name="Replicas" value={count(holds)} />
        <Fact name="Not in sync" value={count(behind)} tone={behind > 0 ? "tone-warn" : ""} />
      </dl>
      <p class="broker-place">
        <code>
          {broker.host}:{broker.port}
        </code>
        {broker.pid !== null && <span> · process {broker.pid}</span>}
      </p>
      {isLocal() && (
        <div class="row">
          {broker.state === "paused" ? (
            <Button
              small
              icon="play"
              data-testid={`resume-${broker.id}`}
              onClick={() => void resumeNode(broker.id)}
            >
              Resume
            </Button>
          ) : (
            <Button
              small
              icon="pause"
              data-testid={`pause-${broker.id}`}
              disabled={broker.pid === null}
              onClick={() => void pauseNode(broker.id)}
            >
              Pause
            </Button>
          )}
          <Button
            small
            icon="bolt"
            data-testid={`kill-${broker.id}`}
            disabled={broker.pid === null}
            onClick={() => void killNode(broker.id, leads)}
          >
            Kill
          </Button>
        </div>
      )}
    </article>
  );
}

function Fact({ name, value, tone = "" }: { name: string; value: string; tone?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={tone}>{value}</dd>
    </div>
  );
}
