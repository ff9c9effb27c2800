// Elections, in-sync changes and restarts as they happen.

import { useState } from "preact/hooks";
import { entries, eventStream, useClusterEvents } from "../../lib/cluster_events";
import { ApiError } from "../../lib/failure";
import { count } from "../../lib/format";
import { CATEGORIES, type Category } from "../../lib/timeline";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { EventAnnouncer, EventList } from "../../ui/EventList";
import { Card } from "../../ui/Page";

const SHOWN_AT_FIRST = 25;

const NAMES: Record<Category, string> = {
  election: "Elections",
  "in-sync": "In-sync sets",
  process: "Processes",
  topic: "Topics",
  cluster: "Cluster",
};

export function Timeline() {
  useClusterEvents();
  const [hidden, setHidden] = useState<ReadonlySet<Category>>(new Set());
  const [limit, setLimit] = useState(SHOWN_AT_FIRST);
  const found = entries.value.filter((entry) => !hidden.has(entry.category));
  const toggle = (category: Category): void => {
    const next = new Set(hidden);
    if (!next.delete(category)) next.add(category);
    setHidden(next);
  };
  return (
    <Card title="Timeline" aside={<Live />} testid="timeline" class="timeline">
      <div class="row timeline-filters" role="group" aria-label="Events to show">
        {CATEGORIES.map((category) => (
          <button
            key={category}
            type="button"
            class="chip"
            aria-pressed={!hidden.has(category)}
            onClick={() => toggle(category)}
          >
            {NAMES[category]}
          </button>
        ))}
      </div>
      <EventAnnouncer entries={found} />
      {found.length === 0 ? <Nothing /> : <EventList entries={found.slice(0, limit)} />}
      {found.length > limit && (
        <Button small onClick={() => setLimit(limit * 4)}>
          Show older ({count(found.length - limit)})
        </Button>
      )}
    </Card>
  );
}

function Nothing() {
  const state = eventStream.value;
  const text =
    state.kind === "connecting"
      ? "Connecting…"
      : state.kind === "open"
        ? "Nothing of that kind has happened yet."
        : state.failure.message;
  return <p class="muted">{text}</p>;
}

function Live() {
  const state = eventStream.value;
  if (state.kind === "open") return <Badge tone="good">live</Badge>;
  if (state.kind === "connecting")
    return (
      <Badge tone="warn" icon="clock">
        connecting
      </Badge>
    );
  return (
    <Badge tone="warn" icon="clock">
      {state.failure instanceof ApiError ? "not available" : "reconnecting"}
    </Badge>
  );
}
