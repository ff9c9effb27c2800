import { now } from "../../lib/clock";
import { ago, bytes, compact, count, dateTime, plural } from "../../lib/format";
import { href } from "../../lib/router";
import { usePolledPath } from "../../lib/use_poll";
import { Button } from "../../ui/Button";
import { Command } from "../../ui/Command";
import { Card, Page } from "../../ui/Page";
import { Table } from "../../ui/Table";
import { Empty, ResourceView } from "../../ui/states";
import { JobBadge, queryText } from "./JobState";
import { NewJob } from "./NewJob";
import { deleteJob } from "./questions";
import { isAway, ServiceNote } from "./ServiceNote";
import {
  FILES,
  isReceived,
  JOBS_PATH,
  QUERIES,
  shortId,
  type FileProgress,
  type Jobs,
  type ServiceState,
} from "./wire";

const INTERVAL_MS = 2_000;

export function JobList() {
  const { resource, refresh } = usePolledPath<Jobs>(JOBS_PATH, INTERVAL_MS);
  return (
    <Page
      name="flights"
      title="Flights"
      lead="Four questions about millions of itineraries, answered while they are uploaded."
    >
      <div class="stack">
        <NewJob />
        <ResourceView resource={resource} what="Loading the jobs" retry={refresh}>
          {({ jobs, service }) => (
            <div class="stack">
              {jobs.length === 0 ? (
                <NoJobs service={service} />
              ) : (
                <>
                  <ServiceNote state={service} />
                  <Rows jobs={jobs} onChanged={refresh} />
                </>
              )}
            </div>
          )}
        </ResourceView>
      </div>
    </Page>
  );
}

type ListedJob = Jobs["jobs"][number];

const COLUMNS = [
  "Job",
  "State",
  { name: "Airports", optional: true },
  { name: "Itineraries", optional: true },
  { name: "Rows", numeric: true },
  ...QUERIES.map((query) => ({ name: query.toUpperCase(), numeric: true, optional: true })),
  { name: "Begun", optional: true },
  "",
];

function Rows({ jobs, onChanged }: { jobs: ListedJob[]; onChanged: () => void }) {
  return (
    <Card title="Jobs" aside={<span class="muted">{plural(jobs.length, "job")}</span>} testid="jobs">
      <Table caption="Jobs of the Flights service" columns={COLUMNS}>
        {jobs.map((job) => (
          <Row key={job.job} job={job} onChanged={onChanged} />
        ))}
      </Table>
    </Card>
  );
}

function Row({ job, onChanged }: { job: ListedJob; onChanged: () => void }) {
  return (
    <tr data-testid={`job-${job.job}`}>
      <th scope="row" class="mono">
        <a href={href("flights", job.job)} title={job.job}>
          {shortId(job.job)}
        </a>
      </th>
      <td title={job.reason ?? undefined}>
        <JobBadge state={job.state} />
      </td>
      {FILES.map((file) => (
        <td key={file} class="optional">
          <FileCell progress={job.files[file]} />
        </td>
      ))}
      <td class="numeric" title={count(job.rows_read)}>
        {compact(job.rows_read)}
      </td>
      {QUERIES.map((query) => (
        <td key={query} class="numeric optional job-query">
          {queryText(job.queries[query], job.state)}
        </td>
      ))}
      <td class="optional job-age" title={dateTime(job.created_ms)}>
        {ago(job.created_ms, now.value)}
      </td>
      <td class="numeric">
        <Button
          look="quiet"
          small
          icon="trash"
          aria-label={`Delete job ${shortId(job.job)}`}
          data-testid={`delete-${job.job}`}
          onClick={() => void deleteJob(job.job).then((isDone) => isDone && onChanged())}
        />
      </td>
    </tr>
  );
}

function FileCell({ progress }: { progress: FileProgress }) {
  if (isReceived(progress)) return <>{bytes(progress.bytes)}, all</>;
  if (progress.messages === null) return <>{bytes(progress.bytes)}</>;
  return (
    <>
      {count(progress.received)} of {plural(progress.messages, "message")}
    </>
  );
}

function NoJobs({ service }: { service: ServiceState }) {
  return (
    <Card>
      <Empty title="There are no jobs yet" icon="flights">
        {isAway(service) && (
          <>
            <p>The service that computes them does not run. Start it on this cluster:</p>
            <Command>penstock flights serve</Command>
          </>
        )}
        <p>Choose two files above, or have some made and send them from a terminal:</p>
        <Command>penstock flights generate --rows 100000 --out flights</Command>
        <Command>
          penstock flights submit --itineraries flights/itineraries.csv --airports flights/airports.csv
        </Command>
      </Empty>
    </Card>
  );
}
