import { useState } from "preact/hooks";
import { messageOf } from "../../lib/failure";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Page";
import { Problem } from "../../ui/Problem";
import { FilePickers } from "./FilePicker";
import { resumeUpload } from "./uploader";
import { usable, useFiles } from "./use_files";
import { FILES, isWhole, type Job } from "./wire";

/** A job whose files are not all there, and which this page does not send: with the same files it goes on. */
export function Resume({ job }: { job: Job }) {
  const files = useFiles();
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const wanted = FILES.filter((file) => !isWhole(job.files[file]));
  const ready = usable(files.chosen, wanted);
  if (wanted.length === 0) return null;
  const resume = async (): Promise<void> => {
    if (ready === null) return;
    setBusy(true);
    setFailure(null);
    try {
      await resumeUpload(job.job, ready);
    } catch (error) {
      setFailure(messageOf(error));
    }
    setBusy(false);
  };
  return (
    <Card title="Go on with the upload" testid="resume">
      <div class="stack">
        <p class="muted">
          {wanted.length === 2 ? "Its files are" : `The ${wanted[0]} are`} not all here yet. Unless they are
          being sent from elsewhere, choose the same again: only what is missing is sent.
        </p>
        <FilePickers files={files} wanted={wanted} />
        {failure !== null && <Problem text={failure} />}
        <div class="row">
          <Button
            look="primary"
            icon="play"
            data-testid="resume-upload"
            disabled={ready === null}
            busy={isBusy}
            onClick={() => void resume()}
          >
            Go on
          </Button>
        </div>
      </div>
    </Card>
  );
}
