import { useState } from "preact/hooks";
import { cluster, rates } from "../../lib/cluster";
import { count, plural, rate } from "../../lib/format";
import { href } from "../../lib/router";
import type { ClusterState } from "../../lib/types";
import { usePoll } from "../../lib/use_poll";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card, Page } from "../../ui/Page";
import { Table } from "../../ui/Table";
import { Empty, ResourceView } from "../../ui/states";
import { CreateTopic } from "./CreateTopic";
import { filterRows, rowOf, type TopicRow } from "./rows";

/** More rows than anybody reads; the filter finds the others. */
const ROWS_MAX = 500;

export function TopicList() {
  const resource = usePoll(cluster).value;
  const [isCreating, setCreating] = useState(false);
  return (
    <Page
      name="topics"
      title="Topics"
      lead="Logs that many write to and many read from."
      actions={
        <Button look="primary" icon="plus" data-testid="create-topic" onClick={() => setCreating(true)}>
          Create a topic
        </Button>
      }
    >
      <ResourceView resource={resource} what="Loading the topics" retry={() => cluster.refresh()}>
        {(state) => <Rows state={state} onCreate={() => setCreating(true)} />}
      </ResourceView>
      {isCreating && <CreateTopic onClose={() => setCreating(false)} />}
    </Page>
  );
}

function Rows({ state, onCreate }: { state: ClusterState; onCreate: () => void }) {
  const [words, setWords] = useState("");
  const [withInternal, setWithInternal] = useState(false);
  const rows = state.topics.map(rowOf).sort((one, other) => (one.name < other.name ? -1 : 1));
  const shown = filterRows(rows, words, withInternal);
  const internal = rows.filter((row) => row.isInternal).length;
  if (rows.length === internal && !withInternal) {
    return (
      <Card>
        <Empty title="There are no topics yet" icon="topics">
          <p>
            A topic appears when somebody creates it, here, with <code>penstock topics create</code> or with
            any Kafka client.
          </p>
          <Button icon="plus" onClick={onCreate}>
            Create a topic
          </Button>
          {internal > 0 && <InternalToggle isOn={withInternal} count={internal} onChange={setWithInternal} />}
        </Empty>
      </Card>
    );
  }
  return (
    <Card class="topic-list">
      <div class="topics-filter">
        <label class="visually-hidden" for="topics-filter">
          Filter topics by name
        </label>
        <input
          id="topics-filter"
          type="search"
          placeholder="Filter by name"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
        {internal > 0 && <InternalToggle isOn={withInternal} count={internal} onChange={setWithInternal} />}
        <span class="muted" role="status">
          {plural(shown.length, "topic")}
        </span>
      </div>
      {shown.length === 0 ? (
        <Empty title="No topic has such a name" icon="search">
          <Button onClick={() => setWords("")}>Show all</Button>
        </Empty>
      ) : (
        <TopicTable rows={shown.slice(0, ROWS_MAX)} />
      )}
      {shown.length > ROWS_MAX && (
        <p class="muted">The first {count(ROWS_MAX)} are shown; filter to see others.</p>
      )}
    </Card>
  );
}

function InternalToggle({
  isOn,
  count: number,
  onChange,
}: {
  isOn: boolean;
  count: number;
  onChange: (isOn: boolean) => void;
}) {
  return (
    <button
      type="button"
      class="chip"
      aria-pressed={isOn}
      data-testid="internal-topics"
      onClick={() => onChange(!isOn)}
    >
      {plural(number, "internal topic")}
    </button>
  );
}

function TopicTable({ rows }: { rows: readonly TopicRow[] }) {
  const columns = [
    "Name",
    { name: "Partitions", numeric: true },
    { name: "Replicas", numeric: true, optional: true },
    { name: "Messages", numeric: true },
    { name: "Coming in", numeric: true, optional: true },
    { name: "State", optional: true },
  ];
  return (
    <Table caption="Topics" columns={columns}>
      {rows.map((row) => (
        <Row key={row.name} row={row} />
      ))}
    </Table>
  );
}

function Row({ row }: { row: TopicRow }) {
  return (
    <tr data-testid={`topic-${row.name}`}>
      <th scope="row" class="topic-name">
        {/* The gateway does not describe internal ones. */}
        {row.isInternal ? row.name : <a href={href("topics", row.name)}>{row.name}</a>}
      </th>
      <td class="numeric">{count(row.partitions)}</td>
      <td class="numeric optional">{count(row.replicas)}</td>
      <td class="numeric">{count(row.messages)}</td>
      <td class="numeric optional">{rate(rates.value.latest(row.name))}</td>
      <td class="optional">
        <State row={row} />
      </td>
    </tr>
  );
}

function State({ row }: { row: TopicRow }) {
  if (row.leaderless > 0) return <Badge tone="bad">{`${row.leaderless} without leader`}</Badge>;
  if (row.underReplicated > 0) return <Badge tone="warn">{`${row.underReplicated} not in sync`}</Badge>;
  return row.isInternal ? <Badge>internal</Badge> : <Badge tone="good">in sync</Badge>;
}
