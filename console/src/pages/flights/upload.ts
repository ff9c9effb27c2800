// How an upload goes on, whatever the gateway answers. Pure: what is to be done is told by `nextStep`, what has
// come of it goes into `advance`; the Uploader does it.
//
// The airports are sent first, then the itineraries, chunk by chunk. A chunk whose answer was lost is sent
// again: the gateway knows it by its number. A gateway that was started anew may know less than its
// predecessor; it says where to go on, and the chunks are there to be cut once more.

import { backoffMs } from "../../lib/backoff";
import { FILES, type FileName, type Job } from "./wire";

export interface FileUpload {
  readonly size: number;
  /** The chunk to send next. */
  readonly next: number;
  /** Bytes before that chunk. */
  readonly sent: number;
  /** There is no chunk `next`. */
  readonly isSent: boolean;
  /** And the gateway was told that there is none. */
  readonly isEnded: boolean;
}

export type Phase =
  | { readonly kind: "sending" }
  | { readonly kind: "waiting"; readonly until: number; readonly why: string }
  | { readonly kind: "paused" }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "done" };

export interface Upload {
  readonly phase: Phase;
  /** In a row. */
  readonly failures: number;
  readonly files: Readonly<Record<FileName, FileUpload>>;
}

export type Step =
  | { kind: "chunk"; file: FileName; message: number }
  | { kind: "end"; file: FileName; messages: number };

export type Outcome =
  /** The gateway has all chunks before `next`, which begins at the byte `at`; null: the file has none such. */
  | { kind: "moved"; file: FileName; next: number; at: number | null }
  | { kind: "sent"; file: FileName }
  | { kind: "ended"; file: FileName }
  | { kind: "wait"; ms: number | null; why: string }
  | { kind: "looked"; file: FileName; job: Job; message: string }
  | { kind: "refused"; reason: string }
  | { kind: "paused" }
  | { kind: "resumed" };

export const ANOTHER_FILE =
  "the gateway has more or less of this file than there is: it is not the one that the job was begun with";

export function newUpload(sizes: Record<FileName, number>): Upload {
  const file = (size: number): FileUpload => ({ size, next: 0, sent: 0, isSent: false, isEnded: false });
  return {
    phase: { kind: "sending" },
    failures: 0,
    files: { airports: file(sizes.airports), itineraries: file(sizes.itineraries) },
  };
}

/** What is to be done now; null while nothing is. */
export function nextStep(upload: Upload): Step | null {
  if (upload.phase.kind !== "sending" && upload.phase.kind !== "waiting") return null;
  for (const file of FILES) {
    const { next, isSent, isEnded } = upload.files[file];
    if (isEnded) continue;
    return isSent ? { kind: "end", file, messages: next } : { kind: "chunk", file, message: next };
  }
  return null;
}

export function advance(upload: Upload, outcome: Outcome, now: number, random: number): Upload {
  switch (outcome.kind) {
    case "moved":
      return moved(upload, outcome.file, outcome.next, outcome.at, now, random);
    case "sent":
      return withFile(upload, outcome.file, { isSent: true });
    case "ended":
      return ended(upload, outcome.file);
    case "wait":
      return waiting(upload, outcome.ms, outcome.why, now, random);
    case "looked":
      return looked(upload, outcome.file, outcome.job, outcome.message);
    case "refused":
      return { ...upload, phase: { kind: "failed", reason: outcome.reason } };
    case "paused":
      return isOver(upload) ? upload : { ...upload, phase: { kind: "paused" } };
    case "resumed":
      return upload.phase.kind === "done" ? upload : { ...upload, failures: 0, phase: { kind: "sending" } };
  }
}

export type Meaning = Outcome | { kind: "next"; next: number } | { kind: "look"; message: string };

/** What an answer to a chunk or to an end means; `told` is its body. The place of `next` is not known here. */
export function outcomeOf(
  step: Step,
  answer: { status: number; told: unknown; message: string; retryAfterMs: number | null },
): Meaning {
  const { status, message } = answer;
  const next = nextIn(answer.told);
  if (status >= 200 && status < 300) {
    if (step.kind === "end") return { kind: "ended", file: step.file };
    return { kind: "next", next: next ?? step.message + 1 };
  }
  if (status === 409) return conflict(step, answer.told, next, message);
  if (status === 429 || status === 503) return { kind: "wait", ms: answer.retryAfterMs, why: message };
  if (status === 408 || status >= 500) return { kind: "wait", ms: null, why: message };
  return { kind: "refused", reason: message };
}

/** Of a job that goes on, either another chunk is wanted, or none: then its state says more. */
function conflict(step: Step, told: unknown, next: number | null, message: string): Meaning {
  if (isObject(told) && (told["state"] === "failed" || told["state"] === "deleted"))
    return { kind: "refused", reason: message };
  const isSame = step.kind === "chunk" && next === step.message;
  return next === null || isSame ? { kind: "look", message } : { kind: "next", next };
}

export function progressOf(upload: Upload): { sent: number; size: number } {
  const files = FILES.map((file) => upload.files[file]);
  return {
    sent: files.reduce((sum, file) => sum + file.sent, 0),
    size: files.reduce((sum, file) => sum + file.size, 0),
  };
}

function isOver({ phase }: Upload): boolean {
  return phase.kind === "done" || phase.kind === "failed";
}

function nextIn(told: unknown): number | null {
  const next = isObject(told) ? told["next"] : null;
  return typeof next === "number" && Number.isInteger(next) && next >= 0 ? next : null;
}

function isObject(told: unknown): told is Record<string, unknown> {
  return typeof told === "object" && told !== null;
}

function withFile(upload: Upload, file: FileName, change: Partial<FileUpload>): Upload {
  return { ...upload, files: { ...upload.files, [file]: { ...upload.files[file], ...change } } };
}

/** A pause that was asked for while the answer was on its way stays a pause. */
function going(upload: Upload): Upload {
  const { kind } = upload.phase;
  return {
    ...upload,
    failures: 0,
    phase: kind === "waiting" || kind === "sending" ? { kind: "sending" } : upload.phase,
  };
}

function moved(
  upload: Upload,
  file: FileName,
  next: number,
  at: number | null,
  now: number,
  random: number,
): Upload {
  if (at === null) return { ...upload, phase: { kind: "failed", reason: ANOTHER_FILE } };
  // "You are wrong, send what you sent": asking at once would be asking for ever.
  if (next === upload.files[file].next)
    return waiting(upload, null, "the gateway asks for the same chunk again", now, random);
  return going(withFile(upload, file, { next, sent: at, isSent: false }));
}

function ended(upload: Upload, file: FileName): Upload {
  const { size } = upload.files[file];
  const after = going(withFile(upload, file, { isSent: true, isEnded: true, sent: size }));
  const isDone = FILES.every((each) => after.files[each].isEnded);
  return isDone ? { ...after, phase: { kind: "done" } } : after;
}

function waiting(upload: Upload, ms: number | null, why: string, now: number, random: number): Upload {
  if (isOver(upload) || upload.phase.kind === "paused") return upload;
  const failures = upload.failures + 1;
  const until = now + (ms ?? backoffMs(failures, random));
  return { ...upload, failures, phase: { kind: "waiting", until, why } };
}

/** A refusal that did not say where to go on: the state of the job explains it. */
function looked(upload: Upload, file: FileName, job: Job, message: string): Upload {
  if (job.state === "failed" || job.state === "deleted")
    return { ...upload, phase: { kind: "failed", reason: job.reason ?? `the job is ${job.state}` } };
  const { messages } = job.files[file];
  const isLonger = messages !== null && upload.files[file].next >= messages;
  return { ...upload, phase: { kind: "failed", reason: isLonger ? ANOTHER_FILE : message } };
}
