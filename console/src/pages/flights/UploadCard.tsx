// An upload of this page, as it goes.

import { now } from "../../lib/clock";
import { bytes, duration } from "../../lib/format";
import { navigate } from "../../lib/router";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Page";
import { Problem } from "../../ui/Problem";
import { Progress } from "../../ui/Progress";
import { cancelUpload } from "./questions";
import { progressOf, type Phase } from "./upload";
import type { Uploader } from "./uploader";
import { FILES, type Job } from "./wire";

export function UploadCard({ job, uploader }: { job: Job; uploader: Uploader }) {
  const upload = uploader.state.value;
  const { phase } = upload;
  const { sent, size } = progressOf(upload);
  const current = FILES.find((file) => !upload.files[file].isEnded);
  return (
    <Card title="Upload" testid="upload">
      <div class="stack" data-phase={phase.kind} data-testid="upload-phase">
        <Progress label="Upload" value={sent} max={size} testid="upload-progress" />
        <p class="upload-text">
          <span role="status">{phaseText(phase, current)}</span>{" "}
          {/* Not read out: it changes all the time. */}
          <span class="muted" aria-hidden="true">
            {bytes(sent)} of {bytes(size)}
            {phase.kind === "waiting" && `, ${retryText(phase.until)}`}
          </span>
        </p>
        {phase.kind === "failed" && <Problem text={phase.reason} />}
        {phase.kind !== "done" && <Buttons id={job.job} uploader={uploader} phase={phase} />}
      </div>
    </Card>
  );
}

function Buttons({ id, uploader, phase }: { id: string; uploader: Uploader; phase: Phase }) {
  const isGoing = phase.kind === "sending" || phase.kind === "waiting";
  return (
    <div class="row">
      {isGoing ? (
        <Button icon="pause" data-testid="upload-pause" onClick={() => uploader.pause()}>
          Pause
        </Button>
      ) : (
        <Button look="primary" icon="play" data-testid="upload-go" onClick={() => uploader.go()}>
          {phase.kind === "failed" ? "Try again" : "Go on"}
        </Button>
      )}
      <Button
        icon="close"
        data-testid="upload-cancel"
        onClick={() => void cancelUpload(id).then((isDone) => isDone && navigate("flights"))}
      >
        Cancel
      </Button>
    </div>
  );
}

function phaseText(phase: Phase, current: string | undefined): string {
  switch (phase.kind) {
    case "sending":
      return `Sending the ${current ?? "files"}.`;
    case "waiting":
      return `Waiting: ${phase.why}.`;
    case "paused":
      return "Paused.";
    case "failed":
      return "The upload has stopped.";
    case "done":
      return "Everything is sent; the service takes it from here.";
  }
}

function retryText(until: number): string {
  const seconds = Math.ceil((until - now.value) / 1000);
  return seconds > 0 ? `next try in ${duration(seconds)}` : "trying";
}
