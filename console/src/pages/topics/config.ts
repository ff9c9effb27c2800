// Settings of topics: how they are typed, which are the topic's own. Pure.

export interface Setting {
  readonly value: string | null;
  readonly source: string;
  readonly read_only: boolean;
  readonly sensitive: boolean;
}

export interface NamedSetting extends Setting {
  readonly name: string;
}

export type ParsedSettings = { readonly config: Record<string, string> } | { readonly problem: string };

/** Whether the topic has a value of its own; others come from the broker, or are Kafka's defaults. */
export function isOwn(setting: Setting): boolean {
  return setting.source === "dynamic_topic_config";
}

/** The topic's own first. */
export function sortSettings(config: Readonly<Record<string, Setting>>): NamedSetting[] {
  return Object.entries(config)
    .map(([name, setting]) => ({ name, ...setting }))
    .sort((one, other) => Number(isOwn(other)) - Number(isOwn(one)) || (one.name < other.name ? -1 : 1));
}

/** Lines of `name=value`; empty ones and those that begin with `#` are passed over. */
export function parseSettings(text: string): ParsedSettings {
  const config: Record<string, string> = {};
  for (const [index, line] of text.split("\n").entries()) {
    const trimmed = line.trim();
    if (trimmed === "" || trimmed.startsWith("#")) continue;
    const equals = trimmed.indexOf("=");
    const name = trimmed.slice(0, equals).trim();
    if (equals < 0 || name === "") return { problem: `Line ${index + 1} is not of the form name=value.` };
    if (Object.hasOwn(config, name)) return { problem: `Line ${index + 1}: ${name} is there twice.` };
    config[name] = trimmed.slice(equals + 1).trim();
  }
  return { config };
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;
const SIZES = [
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

/** What a number of milliseconds or bytes comes to, such as "7 d"; null if it says enough by itself. */
export function humanValue(name: string, value: string | null): string | null {
  if (value === null || !/^-?\d+$/.test(value)) return null;
  const number = Number(value);
  const units = /\.ms$/.test(name) ? UNITS : /(^|\.)bytes$/.test(name) ? SIZES : null;
  if (units === null) return null;
  if (number === -1) return "no limit";
  for (const [unit, size] of units) {
    if (number >= size) return `${Number((number / size).toFixed(1))} ${unit}`;
  }
  return null;
}
