import { useRef, useState } from "preact/hooks";
import { messageOf } from "../../lib/failure";
import { navigate } from "../../lib/router";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Page";
import { Problem } from "../../ui/Problem";
import { FilePickers } from "./FilePicker";
import { startUpload } from "./uploader";
import { usable, useFiles } from "./use_files";
import { FILES, newJobId } from "./wire";

export function NewJob() {
  const files = useFiles();
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  // The same id when the answer was lost and the button is pressed again.
  const id = useRef(newJobId());
  const ready = usable(files.chosen, FILES);
  const start = async (): Promise<void> => {
    if (ready === null) return;
    setBusy(true);
    setFailure(null);
    try {
      await startUpload(id.current, ready);
      navigate("flights", id.current);
    } catch (error) {
      setFailure(messageOf(error));
      setBusy(false);
    }
  };
  return (
    <Card title="New job" testid="new-job">
      <div class="stack">
        <FilePickers files={files} wanted={FILES} />
        {failure !== null && <Problem text={failure} />}
        <div class="row">
          <Button
            look="primary"
            icon="flights"
            data-testid="start-upload"
            disabled={ready === null}
            busy={isBusy}
            onClick={() => void start()}
          >
            Upload and compute
          </Button>
          <span class="muted file-hint">
            The files are sent in pieces; an upload that breaks goes on where it was.
          </span>
        </div>
      </div>
    </Card>
  );
}
