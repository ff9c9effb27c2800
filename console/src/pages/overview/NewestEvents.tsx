import { entries, eventStream, useClusterEvents } from "../../lib/cluster_events";
import { href } from "../../lib/router";
import { EventList } from "../../ui/EventList";
import { Card } from "../../ui/Page";

const SHOWN_MAX = 7;

export function NewestEvents() {
  useClusterEvents();
  const newest = entries.value.slice(0, SHOWN_MAX);
  const state = eventStream.value;
  return (
    <Card title="Newest events" aside={<a href={href("cluster")}>Timeline</a>}>
      {newest.length > 0 && <EventList entries={newest} />}
      {newest.length === 0 && (
        <p class="muted">{state.kind === "waiting" ? state.failure.message : "Nothing has happened yet."}</p>
      )}
    </Card>
  );
}
