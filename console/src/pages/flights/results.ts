// The four queries, in words, and where their results are.

import { token } from "../../lib/token";
import { jobPath, type QueryName } from "./wire";

export type ResultRow = Readonly<Record<string, string | number | null>>;

export interface ResultColumn {
  name: string;
  title: string;
  kind: "text" | "fare" | "miles" | "path";
}

export interface ResultKind {
  title: string;
  text: string;
  /** Told before there are any. */
  later: string;
  columns: readonly ResultColumn[];
}

const LEG: ResultColumn = { name: "legId", title: "Leg", kind: "text" };
const ROUTE: readonly ResultColumn[] = [
  { name: "startingAirport", title: "From", kind: "text" },
  { name: "destinationAirport", title: "To", kind: "text" },
];
const STOPOVERS: ResultColumn = { name: "stopovers", title: "Stopovers", kind: "path" };
const AS_THEY_ARRIVE = "Rows appear here while the itineraries arrive.";

export const RESULTS: Readonly<Record<QueryName, ResultKind>> = {
  q1: {
    title: "Many stopovers",
    text: "Flights with three or more stopovers.",
    later: AS_THEY_ARRIVE,
    columns: [LEG, ...ROUTE, { name: "totalFare", title: "Fare", kind: "fare" }, STOPOVERS],
  },
  q2: {
    title: "Long ways round",
    text: "Flights that travel more than four times the direct distance between their airports.",
    later: AS_THEY_ARRIVE,
    columns: [LEG, ...ROUTE, { name: "totalTravelDistance", title: "Distance", kind: "miles" }],
  },
  q3: {
    title: "Fastest of each route",
    text: "Of the flights with three or more stopovers, the two fastest of each route.",
    later: "Which flights are the fastest is known when all itineraries are there.",
    columns: [LEG, ...ROUTE, { name: "travelDuration", title: "Duration", kind: "text" }, STOPOVERS],
  },
  q4: {
    title: "Fares of routes",
    text: "Average and highest fare of each route, of the fares above the average of all.",
    later: "The average of all fares is known when all itineraries are there.",
    columns: [
      ...ROUTE,
      { name: "avgFare", title: "Average fare", kind: "fare" },
      { name: "maxFare", title: "Highest fare", kind: "fare" },
    ],
  },
};

export function resultsPath(job: string, query: QueryName): string {
  return `${jobPath(job)}/results/${query}?format=ndjson&follow=1`;
}

/** For a link, which can not send a header: the address has to carry the token. */
export function downloadPath(job: string, query: QueryName, format: "csv" | "ndjson"): string {
  const who = token.value === "" ? "" : `&access_token=${encodeURIComponent(token.value)}`;
  return `${jobPath(job)}/results/${query}?format=${format}&follow=0${who}`;
}

const fares = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const miles = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** A fare has two digits behind the point. */
export function fare(value: number): string {
  return fares.format(value);
}

export function cellText(column: ResultColumn, row: ResultRow): string {
  const value = row[column.name];
  if (value === null || value === undefined) return "";
  if (column.kind === "path") return String(value).replaceAll("||", " · ");
  if (column.kind === "text" || Number.isNaN(Number(value))) return String(value);
  return column.kind === "fare" ? fare(Number(value)) : `${miles.format(Number(value))} mi`;
}
