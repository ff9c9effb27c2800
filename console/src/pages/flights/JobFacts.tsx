// What has become of a job: its state, and how far it is.

import { now } from "../../lib/clock";
import { ago, bytes, count, dateTime, plural } from "../../lib/format";
import { Card } from "../../ui/Page";
import { Progress } from "../../ui/Progress";
import { JobBadge } from "./JobState";
import { FILES, isReceived, type FileName, type FileProgress, type Job, type JobState } from "./wire";

const WORDS: Record<JobState, string> = {
  receiving: "Its files are on their way; the first two queries answer meanwhile.",
  computing: "All of it is there; the last two queries are being answered.",
  complete: "All four queries are answered.",
  failed: "It has failed, and nothing more will come of it.",
  deleted: "It was deleted.",
};

export function JobFacts({ job }: { job: Job }) {
  return (
    <Card testid="job-facts">
      <div class="job-head" role="status" data-testid="job-state" data-state={job.state}>
        <JobBadge state={job.state} />
        <span>{WORDS[job.state]}</span>
      </div>
      {job.reason !== null && (
        <p class="form-problem" data-testid="job-reason">
          {job.reason}
        </p>
      )}
      <div class="job-files">
        {FILES.map((file) => (
          <FileFacts key={file} name={file} progress={job.files[file]} />
        ))}
      </div>
      <dl class="job-figures">
        <Figure name="Rows read" value={count(job.rows_read)} />
        <Figure name="Rows rejected" value={count(job.rows_rejected)} />
        <Figure name="Begun" value={ago(job.created_ms, now.value)} title={dateTime(job.created_ms)} />
        <Figure name="Last change" value={ago(job.updated_ms, now.value)} title={dateTime(job.updated_ms)} />
      </dl>
      <p class="muted job-id">
        <code>{job.job}</code>
      </p>
    </Card>
  );
}

function Figure({ name, value, title }: { name: string; value: string; title?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd title={title}>{value}</dd>
    </div>
  );
}

const TITLES: Record<FileName, string> = { airports: "Airports", itineraries: "Itineraries" };

function FileFacts({ name, progress }: { name: FileName; progress: FileProgress }) {
  const { messages, received, duplicates } = progress;
  return (
    <div class="job-file" data-testid={`progress-${name}`}>
      <p>
        <strong>{TITLES[name]}</strong> <span class="muted">{fileText(progress)}</span>
      </p>
      {messages !== null && (
        <Progress label={`${TITLES[name]} at the service`} value={received} max={messages} />
      )}
      {duplicates > 0 && (
        <p class="muted">{plural(duplicates, "message")} came more than once, and were counted once.</p>
      )}
    </div>
  );
}

function fileText(progress: FileProgress): string {
  const size = bytes(progress.bytes);
  if (isReceived(progress)) return `${plural(progress.messages ?? 0, "message")}, ${size}: complete`;
  if (progress.messages !== null)
    return `${count(progress.received)} of ${plural(progress.messages, "message")}, ${size}`;
  return progress.received === 0 ? "nothing yet" : `${plural(progress.received, "message")}, ${size} so far`;
}
