// The answers: one query at a time, since each is a stream and browsers allow few of them.

import { useEffect, useMemo, useState } from "preact/hooks";
import { count, plural } from "../../lib/format";
import { Badge } from "../../ui/Badge";
import { Icon } from "../../ui/Icon";
import { Card } from "../../ui/Page";
import { Empty } from "../../ui/states";
import { queryText } from "./JobState";
import { ResultChart } from "./ResultChart";
import { ResultTable } from "./ResultTable";
import { READ_ROWS_MAX } from "./digest";
import { ResultFeed, type Shown } from "./feed";
import { downloadPath, RESULTS } from "./results";
import { isFinal, QUERIES, type Job, type QueryName } from "./wire";

export function Results({ job }: { job: Job }) {
  const [query, setQuery] = useState<QueryName>("q1");
  return (
    <Card title="Results" testid="results">
      <div class="stack">
        <fieldset class="query-choice">
          <legend class="visually-hidden">Query</legend>
          <div class="segments">
            {QUERIES.map((each) => (
              <label key={each}>
                <input
                  type="radio"
                  name="query"
                  checked={each === query}
                  data-testid={`query-${each}`}
                  onChange={() => setQuery(each)}
                />
                {RESULTS[each].title}{" "}
                <span class="query-rows" data-testid={`rows-${each}`}>
                  {queryText(job.queries[each], job.state)}
                </span>
              </label>
            ))}
          </div>
        </fieldset>
        <Result key={query} job={job} query={query} />
      </div>
    </Card>
  );
}

function Result({ job, query }: { job: Job; query: QueryName }) {
  const feed = useMemo(() => new ResultFeed(job.job, query), [job.job, query]);
  useEffect(() => feed.start(), [feed]);
  useEffect(() => feed.update(job), [feed, job]);
  const shown = feed.shown.value;
  const progress = job.queries[query];
  const { digest } = shown;
  return (
    <section class="stack" aria-label={RESULTS[query].title} data-testid={`result-${query}`}>
      <div class="result-head">
        <p>{RESULTS[query].text}</p>
        {progress.state !== "later" && <Downloads job={job.job} query={query} />}
      </div>
      {progress.state === "later" ? (
        <Later job={job} query={query} />
      ) : (
        <>
          <ReadingNote shown={shown} job={job} query={query} />
          {digest.count > 0 && <ResultChart digest={digest} />}
          {digest.count > 0 && <ResultTable digest={digest} total={Math.max(progress.rows, digest.count)} />}
          {digest.count === 0 && shown.phase === "ended" && progress.state === "complete" && (
            <Empty title="No row is an answer to this" icon="search" />
          )}
        </>
      )}
    </section>
  );
}

function Later({ job, query }: { job: Job; query: QueryName }) {
  if (job.state === "failed") return <Empty title="There will be no answer" icon="warning" />;
  return (
    <Empty title="Later" icon="clock">
      <p>{RESULTS[query].later}</p>
    </Empty>
  );
}

function ReadingNote({ shown, job, query }: { shown: Shown; job: Job; query: QueryName }) {
  const { phase, digest, failure } = shown;
  const isComplete = job.queries[query].state === "complete";
  return (
    <p class="muted reading-note" data-testid="reading" data-phase={phase}>
      {isComplete && <Badge tone="good">complete</Badge>}
      {!isComplete && !isFinal(job.state) && <Badge icon="clock">more may come</Badge>}
      <span>
        {plural(digest.count, "row")} read
        {phase === "enough" && `; behind the first ${count(READ_ROWS_MAX)} only a download has the rest`}
        {phase === "waiting" && failure !== null && `; ${failure}, trying again`}
        {phase === "failed" && failure !== null && `; ${failure}`}.
      </span>
    </p>
  );
}

function Downloads({ job, query }: { job: string; query: QueryName }) {
  return (
    <div class="row">
      {(["csv", "ndjson"] as const).map((format) => (
        <a
          key={format}
          class="button button-plain button-small"
          href={downloadPath(job, query, format)}
          download={`${query}.${format}`}
          data-testid={`download-${format}`}
        >
          <Icon name="download" size={15} />
          {format === "csv" ? "CSV" : "NDJSON"}
          <span class="visually-hidden"> of {RESULTS[query].title}</span>
        </a>
      ))}
    </div>
  );
}
