// Uploads of this page. They go on wherever in the console the user is, until the page itself is closed.

import { signal, type ReadonlySignal } from "@preact/signals";
import { exchange, get, post } from "../../lib/api";
import { isAbort, messageOf, Unreachable } from "../../lib/failure";
import { Cutter, sourceOf } from "./chunks";
import { advance, newUpload, nextStep, outcomeOf, type Outcome, type Step, type Upload } from "./upload";
import { FILES, isWhole, JOBS_PATH, jobPath, type FileName, type Job } from "./wire";

/** Of a chunk; the gateway answers when it is on a majority of brokers. */
const ANSWER_MS_MAX = 60_000;

/** One that the gateway has completely is not needed again. */
export type Files = Partial<Record<FileName, File>>;

const running = signal<ReadonlyMap<string, Uploader>>(new Map());

/** By the ids of their jobs. */
export const uploads: ReadonlySignal<ReadonlyMap<string, Uploader>> = running;

/** A new job, known to the gateway. With the same id it can be tried again. */
export async function startUpload(job: string, files: Files): Promise<void> {
  await post(JOBS_PATH, { job });
  await begin(job, files);
}

/** Goes on with a job of which this page has only the id; throws if the files are not those of before. */
export async function resumeUpload(job: string, files: Files): Promise<void> {
  const known = await get<Job>(jobPath(job));
  await begin(job, files, known);
}

export function forgetUpload(job: string): void {
  running.peek().get(job)?.pause();
  const left = new Map(running.peek());
  left.delete(job);
  running.value = left;
}

async function begin(job: string, files: Files, known?: Job): Promise<void> {
  const uploader = new Uploader(job, files);
  if (known !== undefined) await uploader.goOnFrom(known);
  forgetUpload(job);
  running.value = new Map(running.peek()).set(job, uploader);
  uploader.go();
}

/** A line feed may have been added to the last line. */
function isSame(bytes: number, at: number): boolean {
  return bytes === at || bytes === at + 1;
}

export class Uploader {
  readonly #job: string;
  readonly #cutters = new Map<FileName, Cutter>();
  readonly #state;
  /** Of the run that is under way; a run that is called off says nothing any more. */
  #run: AbortController | undefined;

  constructor(job: string, files: Files) {
    this.#job = job;
    for (const name of FILES) {
      const file = files[name];
      if (file !== undefined) this.#cutters.set(name, new Cutter(sourceOf(file)));
    }
    this.#state = signal(
      newUpload({ airports: files.airports?.size ?? 0, itineraries: files.itineraries?.size ?? 0 }),
    );
  }

  get state(): ReadonlySignal<Upload> {
    return this.#state;
  }

  /** Behind what the gateway has. */
  async goOnFrom(job: Job): Promise<void> {
    for (const file of FILES) {
      const progress = job.files[file];
      if (isWhole(progress)) {
        this.#apply({ kind: "ended", file });
        continue;
      }
      const at = await this.#cutter(file).startOf(progress.next);
      // What the service has seen may be less than what the gateway has; only then sizes tell nothing.
      if (at === null || (progress.received === progress.next && !isSame(progress.bytes, at)))
        throw new Error(`this is another file than the ${file} that the job was begun with`);
      if (progress.next > 0) this.#apply({ kind: "moved", file, next: progress.next, at });
    }
  }

  #cutter(file: FileName): Cutter {
    const found = this.#cutters.get(file);
    if (found === undefined) throw new Error(`the file of the ${file} is missing`);
    return found;
  }

  go(): void {
    this.#run?.abort();
    const run = new AbortController();
    this.#run = run;
    this.#apply({ kind: "resumed" });
    void this.#work(run.signal);
  }

  pause(): void {
    this.#run?.abort();
    this.#apply({ kind: "paused" });
  }

  async #work(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#rest(signal);
      const step = signal.aborted ? null : nextStep(this.#state.peek());
      if (step === null) return;
      const outcome = await this.#do(step, signal);
      if (signal.aborted) return;
      this.#apply(outcome);
    }
  }

  async #do(step: Step, signal: AbortSignal): Promise<Outcome> {
    try {
      const { file } = step;
      const path = `${jobPath(this.#job)}/${file}`;
      if (step.kind === "end")
        return await this.#ask(step, `${path}/end`, "POST", { messages: step.messages }, signal);
      const chunk = await this.#cutter(file).chunk(step.message);
      if (chunk === null) return { kind: "sent", file };
      return await this.#ask(step, `${path}?message=${step.message}`, "PUT", chunk, signal);
    } catch (error) {
      if (error instanceof Unreachable) return { kind: "wait", ms: null, why: error.message };
      if (isAbort(error)) return { kind: "paused" };
      // The file was changed or removed, or it can not be cut.
      return { kind: "refused", reason: messageOf(error) };
    }
  }

  async #ask(
    step: Step,
    path: string,
    method: "PUT" | "POST",
    body: Uint8Array<ArrayBuffer> | object,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const answer = await exchange(path, { method, body, signal, timeoutMs: ANSWER_MS_MAX });
    const outcome = outcomeOf(step, answer);
    const { file } = step;
    if (outcome.kind === "next") {
      const { next } = outcome;
      return { kind: "moved", file, next, at: await this.#cutter(file).startOf(next) };
    }
    if (outcome.kind === "look") {
      const job = await get<Job>(jobPath(this.#job), signal);
      return { kind: "looked", file, job, message: outcome.message };
    }
    return outcome;
  }

  /** Until it is time to try again. */
  async #rest(signal: AbortSignal): Promise<void> {
    const { phase } = this.#state.peek();
    if (phase.kind !== "waiting") return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, phase.until - Date.now()));
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #apply(outcome: Outcome): void {
    this.#state.value = advance(this.#state.peek(), outcome, Date.now(), Math.random());
  }
}

// Whoever closes the page closes the upload.
if (typeof window !== "undefined")
  addEventListener("beforeunload", (event) => {
    const isBusy = [...running.peek().values()].some(({ state }) =>
      ["sending", "waiting"].includes(state.peek().phase.kind),
    );
    if (isBusy) event.preventDefault();
  });
