import type { ComponentChildren } from "preact";
import { healthOf, messagesSoFar, rates } from "../../lib/cluster";
import { count, plural, rate } from "../../lib/format";
import type { ClusterState, Topic } from "../../lib/types";
import { Sparkline } from "../../ui/Sparkline";

/** `topics` are those that are not internal. */
export function Figures({ state, topics }: { state: ClusterState; topics: Topic[] }) {
  const health = healthOf(state);
  const names = topics.map((topic) => topic.name);
  const perSecond = names.length === 0 ? 0 : rates.value.latestTotal(names);
  const messages = topics.length === 0 ? 0 : messagesSoFar(topics);
  const areRunning = health.brokersRunning === health.brokers;
  return (
    <div class="figures">
      <Figure
        name="Messages in"
        value={rate(perSecond)}
        note={messages === null ? "this cluster does not tell" : `${plural(messages, "message")} so far`}
        wide
        chart={
          <Sparkline
            values={rates.value.total(names)}
            label={`Messages in, last minute; now ${rate(perSecond)}`}
            slots={90}
          />
        }
      />
      <Figure
        name="Brokers running"
        value={`${health.brokersRunning} of ${health.brokers}`}
        tone={areRunning ? "" : "tone-warn"}
        note={
          state.controller === null ? "no active controller" : `node ${state.controller} is the controller`
        }
      />
      <Figure
        name="Not in sync"
        value={count(health.underReplicated)}
        tone={health.underReplicated === 0 ? "" : "tone-warn"}
        note={`of ${plural(health.partitions, "partition")}`}
      />
      <Figure
        name="Topics"
        value={count(topics.length)}
        note={`and ${state.topics.length - topics.length} internal`}
      />
    </div>
  );
}

interface FigureProps {
  name: string;
  value: string;
  note: string;
  tone?: string;
  chart?: ComponentChildren;
  wide?: boolean;
}

function Figure({ name, value, note, tone = "", chart, wide = false }: FigureProps) {
  return (
    <section class={wide ? "card figure figure-wide" : "card figure"} aria-label={name}>
      <div>
        <h2 class="figure-name">{name}</h2>
        <p class={`figure-value ${tone}`}>{value}</p>
        <p class="figure-note">{note}</p>
      </div>
      {chart}
    </section>
  );
}
