// The header line of a CSV file: whether the columns are there that the queries need. Pure.

import { CHUNK_BYTES_MAX, type Source } from "./chunks";
import { FILES, type FileName } from "./wire";

const COLUMNS: Record<FileName, { delimiter: string; columns: readonly string[] }> = {
  airports: { delimiter: ";", columns: ["Airport Code", "Latitude", "Longitude"] },
  itineraries: {
    delimiter: ",",
    columns: [
      "legId",
      "startingAirport",
      "destinationAirport",
      "travelDuration",
      "totalFare",
      "totalTravelDistance",
      "segmentsArrivalAirportCode",
    ],
  },
};

/** Why a file that begins with `line` is not the one that is wanted; null if it is. */
export function headerProblem(file: FileName, line: Uint8Array): string | null {
  if (line.length === 0) return "The file is empty.";
  const text = decode(line);
  if (text === null) return "Its first line is no text in UTF-8.";
  if (text.includes("\0")) return "It has NUL bytes: it is no text.";
  if (text.trim() === "") return "It has no header line.";
  const { delimiter, columns } = COLUMNS[file];
  const names = text.split(delimiter).map((name) => name.trim());
  const missing = columns.filter((column) => !names.includes(column));
  if (missing.length > 0 && names.length === 1)
    return `There is no “${delimiter}” in its header line, so it has not the column ${missing[0]}.`;
  if (missing.length > 0)
    return `Its header line has not the column${missing.length > 1 ? "s" : ""} ${missing.join(", ")}.`;
  const twice = columns.find((column) => names.indexOf(column) !== names.lastIndexOf(column));
  return twice === undefined ? null : `The column ${twice} is there more than once.`;
}

/** Which of the files begins with `line`; null if none does. */
export function recognize(line: Uint8Array): FileName | null {
  return FILES.find((file) => headerProblem(file, line) === null) ?? null;
}

/** The first line of a file, without its end; of a line that is longer than a chunk as much as fits in one. */
export async function firstLine(source: Source): Promise<Uint8Array> {
  const bytes = await source.read(0, Math.min(source.size, CHUNK_BYTES_MAX));
  const end = bytes.indexOf(0x0a);
  return end < 0 ? bytes : bytes.subarray(0, end + 1);
}

/** Without a byte order mark. */
function decode(line: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(line);
  } catch {
    return null;
  }
}
