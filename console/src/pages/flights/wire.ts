// What the gateway says about jobs of the Flights service. Field names are those on the wire.

export type FileName = "airports" | "itineraries";
/** In the order in which they are sent: itineraries are looked at when the airports are known. */
export const FILES: readonly FileName[] = ["airports", "itineraries"];

export type QueryName = "q1" | "q2" | "q3" | "q4";
export const QUERIES: readonly QueryName[] = ["q1", "q2", "q3", "q4"];

export type JobState = "receiving" | "computing" | "complete" | "failed" | "deleted";

export interface FileProgress {
  /** The gateway has all messages before this one. */
  next: number;
  /** By the service. */
  received: number;
  /** How many there are, once the end was told. */
  messages: number | null;
  /** Of what the service has received. */
  bytes: number;
  duplicates: number;
}

export interface QueryProgress {
  state: "later" | "partial" | "complete";
  rows: number;
}

/** As summary.json of `penstock flights run`. */
export interface Summary {
  rows_read?: number;
  rows_rejected?: number;
  rejected?: Record<string, number>;
  left_out?: Record<string, Record<string, number>>;
  average_fare?: number | null;
  seconds?: number;
}

/** `GET /v1/flights/jobs/{job}`. */
export interface Job {
  job: string;
  state: JobState;
  reason: string | null;
  created_ms: number;
  updated_ms: number;
  files: Record<FileName, FileProgress>;
  queries: Record<QueryName, QueryProgress>;
  rows_read: number;
  rows_rejected: number;
  summary: Summary | null;
  expired: boolean;
  service: ServiceState;
}

/** By the heartbeats of the service that computes. */
export type ServiceState = "running" | "starting" | "late" | "down" | "not started";

/** `GET /v1/flights/jobs`, newest first. */
export interface Jobs {
  jobs: Omit<Job, "service">[];
  service: ServiceState;
}

export const JOBS_PATH = "/v1/flights/jobs";

export function jobPath(job: string): string {
  return `${JOBS_PATH}/${encodeURIComponent(job)}`;
}

export function isFinal(state: JobState): boolean {
  return state === "complete" || state === "failed" || state === "deleted";
}

/** Whether the gateway has all of it. */
export function isWhole(file: FileProgress): boolean {
  return file.messages !== null && file.next >= file.messages;
}

/** Whether the service has, too. */
export function isReceived(file: FileProgress): boolean {
  return file.messages !== null && file.received >= file.messages;
}

/** Enough of an id to know it again. */
export function shortId(job: string): string {
  return job.slice(0, 8);
}

/** A random UUID. `crypto.randomUUID` is there on secure pages only, and a gateway may be plain HTTP. */
export function newJobId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
