import { useState } from "preact/hooks";
import { isInternal, isUnderReplicated } from "../../lib/cluster";
import { count } from "../../lib/format";
import type { Topic } from "../../lib/types";
import { Card } from "../../ui/Page";
import { Empty } from "../../ui/states";
import { TopicPartitions } from "./TopicPartitions";

const SHOWN_MAX = 100;
const FILTER_FROM = 8;

export function TopicList({ topics }: { topics: Topic[] }) {
  const [filter, setFilter] = useState("");
  const [withInternal, setWithInternal] = useState(false);
  const found = topics.filter(
    (topic) =>
      topic.name.includes(filter.trim()) &&
      (withInternal || !isInternal(topic.name) || topic.partitions.some(isUnderReplicated)),
  );
  const internal = topics.filter((topic) => isInternal(topic.name)).length;
  return (
    <Card
      title="Partitions"
      aside={
        <div class="row">
          {topics.length >= FILTER_FROM && (
            <input
              type="search"
              class="topic-filter"
              placeholder="Filter topics"
              aria-label="Filter topics"
              value={filter}
              onInput={(event) => setFilter(event.currentTarget.value)}
            />
          )}
          {internal > 0 && (
            <button
              type="button"
              class="chip"
              aria-pressed={withInternal}
              onClick={() => setWithInternal(!withInternal)}
            >
              {count(internal)} internal
            </button>
          )}
        </div>
      }
    >
      <Legend />
      {found.length === 0 && (
        <Empty
          title={topics.length - internal === 0 ? "No topics yet" : "No topic of that name"}
          icon="topics"
        />
      )}
      <div class="topic-list">
        {found.slice(0, SHOWN_MAX).map((topic) => (
          <TopicPartitions key={topic.name} topic={topic} isFew={found.length <= FILTER_FROM} />
        ))}
      </div>
      {found.length > SHOWN_MAX && (
        <p class="muted">And {count(found.length - SHOWN_MAX)} more: filter by name to see them.</p>
      )}
    </Card>
  );
}

function Legend() {
  return (
    <p class="legend" aria-hidden="true">
      <span class="replica replica-leader">1</span> leads
      <span class="replica">2</span> in sync
      <span class="replica replica-behind">3</span> not in sync
    </p>
  );
}
