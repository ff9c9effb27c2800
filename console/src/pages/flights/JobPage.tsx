import { ApiError } from "../../lib/failure";
import { href, navigate } from "../../lib/router";
import { usePolledPath } from "../../lib/use_poll";
import { Button } from "../../ui/Button";
import { Card, Page } from "../../ui/Page";
import { Empty, ResourceView } from "../../ui/states";
import { JobFacts } from "./JobFacts";
import { JobSummary } from "./JobSummary";
import { Results } from "./Results";
import { Resume } from "./Resume";
import { ServiceNote } from "./ServiceNote";
import { UploadCard } from "./UploadCard";
import { deleteJob } from "./questions";
import { uploads } from "./uploader";
import { isFinal, jobPath, shortId, type Job } from "./wire";

const INTERVAL_MS = 1_000;

export function JobPage({ id }: { id: string }) {
  const { resource, refresh } = usePolledPath<Job>(jobPath(id), INTERVAL_MS);
  const { failure } = resource;
  // Whether it never was, or was deleted, or is no id at all.
  const isGone = failure instanceof ApiError && [400, 404, 410].includes(failure.status);
  return (
    <Page
      name="flights"
      title={`Job ${shortId(id)}`}
      lead={<a href={href("flights")}>All jobs</a>}
      actions={
        !isGone && (
          <Button
            icon="trash"
            data-testid="delete-job"
            onClick={() => void deleteJob(id).then((isDone) => isDone && navigate("flights"))}
          >
            Delete
          </Button>
        )
      }
    >
      {isGone ? (
        <NoSuchJob />
      ) : (
        <ResourceView resource={resource} what="Loading the job" retry={refresh}>
          {(job) => <Content job={job} />}
        </ResourceView>
      )}
    </Page>
  );
}

function Content({ job }: { job: Job }) {
  const uploader = uploads.value.get(job.job);
  const isOpen = job.state === "receiving";
  return (
    <div class="stack" data-testid="job-detail">
      {!isFinal(job.state) && <ServiceNote state={job.service} />}
      {isOpen && uploader !== undefined && <UploadCard job={job} uploader={uploader} />}
      <JobFacts job={job} />
      {isOpen && uploader === undefined && <Resume job={job} />}
      {job.summary !== null && <JobSummary summary={job.summary} />}
      <Results job={job} />
    </div>
  );
}

function NoSuchJob() {
  return (
    <Card>
      <Empty title="There is no such job" icon="search">
        <p>
          It may have been deleted. <a href={href("flights")}>See those that are there</a>
        </p>
      </Empty>
    </Card>
  );
}
