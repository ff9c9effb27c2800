// Numbers and times, as people read them. Pure.

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** 12345 is "12,345". */
export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : plain.format(value);
}

/** 12345 is "12.3K". */
export function compact(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : short.format(value);
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 1536 is "1.5 KiB". */
export function bytes(value: number): string {
  let [shown, unit] = [Math.max(0, value), 0];
  while (shown >= 1024 && unit < BYTE_UNITS.length - 1) [shown, unit] = [shown / 1024, unit + 1];
  return `${unit === 0 || shown >= 100 ? Math.round(shown) : shown.toFixed(1)} ${BYTE_UNITS[unit]}`;
}

/** Of messages in a second: small rates keep a digit behind the point. */
export function rate(perSecond: number | null): string {
  if (perSecond === null) return "–";
  if (perSecond > 0 && perSecond < 10) return `${perSecond.toFixed(1)}/s`;
  return `${perSecond < 10_000 ? count(perSecond) : compact(perSecond)}/s`;
}

/** "3 partitions", "1 partition". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** 14:03:59, in the browser's time zone. */
export function time(ms: number): string {
  return clockTime.format(ms);
}

/** 15 Nov 2026, 14:03:59. */
export function dateTime(ms: number): string {
  return dayTime.format(ms);
}

/** How long ago, coarse on purpose: "now", "12 s ago", "3 min ago". */
export function ago(ms: number, nowMs: number): string {
  const seconds = Math.round((nowMs - ms) / 1000);
  return seconds < 2 ? "now" : `${duration(seconds)} ago`;
}

/** 75 s is "1 min". */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** "leader_elected" is "leader elected". */
export function words(identifier: string): string {
  return identifier.replaceAll("_", " ");
}
