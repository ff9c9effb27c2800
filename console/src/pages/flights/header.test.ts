import { expect, test } from "vitest";
import { sourceOf } from "./chunks";
import { firstLine, headerProblem, recognize } from "./header";

const AIRPORTS = "Airport Code;Airport Name;Latitude;Longitude";
const ITINERARIES =
  "legId,startingAirport,destinationAirport,travelDuration,totalFare,totalTravelDistance," +
  "segmentsArrivalAirportCode";
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test.each([
  ["airports", AIRPORTS, null],
  ["airports", `\ufeff${AIRPORTS}\r\n`, null],
  ["airports", " Airport Code ; Latitude ; Longitude ", null],
  ["itineraries", ITINERARIES, null],
  ["itineraries", "", "The file is empty."],
  ["itineraries", "\n", "It has no header line."],
  ["itineraries", AIRPORTS, "There is no “,” in its header line, so it has not the column legId."],
  ["itineraries", ITINERARIES.replace("totalFare,", ""), "Its header line has not the column totalFare."],
  ["airports", "Airport Code;x", "Its header line has not the columns Latitude, Longitude."],
  ["airports", `${AIRPORTS};Latitude`, "The column Latitude is there more than once."],
  ["airports", "Airport Code\0;Latitude;Longitude", "It has NUL bytes: it is no text."],
] as const)("%s: %j", (file, line, problem) => {
  expect(headerProblem(file, bytes(line))).toBe(problem);
});

test("what is no UTF-8", () => {
  expect(headerProblem("airports", new Uint8Array([0xff, 0xfe, 0x41]))).toBe(
    "Its first line is no text in UTF-8.",
  );
});

test("files are told apart", () => {
  expect(recognize(bytes(AIRPORTS))).toBe("airports");
  expect(recognize(bytes(ITINERARIES))).toBe("itineraries");
  expect(recognize(bytes("a,b,c"))).toBeNull();
});

test("the first line of a file", async () => {
  const line = async (text: string): Promise<string> =>
    new TextDecoder().decode(await firstLine(sourceOf(new Blob([text]))));
  expect(await line("ab\r\ncd\n")).toBe("ab\r\n");
  expect(await line("ab")).toBe("ab");
  expect(await line("")).toBe("");
});
