// Keys and values as people read them: text, JSON with its structure seen, or bytes. Pure.

export type Payload =
  | { readonly kind: "none" }
  | { readonly kind: "text" | "json"; readonly text: string }
  | { readonly kind: "bytes"; readonly bytes: Uint8Array };

/** `encoded` is base64 and stands for what is not UTF-8. */
export function payloadOf(text: string | null, encoded: string | undefined): Payload {
  if (encoded !== undefined) {
    const bytes = decodeBase64(encoded);
    return bytes ? { kind: "bytes", bytes } : { kind: "text", text: encoded };
  }
  if (text === null) return { kind: "none" };
  const pretty = prettyJson(text);
  return pretty === null ? { kind: "text", text } : { kind: "json", text: pretty };
}

/**
 * JSON objects and lists, indented; null for anything else. The text itself is indented, not what JavaScript makes of
 * it, so numbers keep every digit and keys their order, and keys that occur twice stay two.
 */
export function prettyJson(text: string): string | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return indent(text);
}

const TOKENS = /"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g;

function indent(text: string): string {
  const parts: string[] = [];
  let depth = 0;
  const line = (): string => `\n${"  ".repeat(depth)}`;
  let before = "";
  for (const [token] of text.matchAll(TOKENS)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    const opened = before === "{" || before === "[";
    if (before === "," || (closes ? !opened : opened)) parts.push(line());
    parts.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return parts.join("");
}

export function decodeBase64(encoded: string): Uint8Array | null {
  try {
    return Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

const ROW_BYTES = 16;

/** Offset, bytes, and what of them is ASCII, sixteen to a line. */
export function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let start = 0; start < bytes.length; start += ROW_BYTES) {
    const row = [...bytes.subarray(start, start + ROW_BYTES)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const ascii = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${start.toString(16).padStart(8, "0")}  ${hex.padEnd(ROW_BYTES * 3 - 1)}  ${ascii}`);
  }
  return lines.join("\n");
}

export const SHOWN_CHARACTERS = 2_000;
export const SHOWN_LINES = 24;

/** What is shown of it at first, or in the end; bytes are only written out as far as they are shown. */
export function shownText(
  payload: Exclude<Payload, { kind: "none" }>,
  isWhole: boolean,
): { text: string; isCut: boolean } {
  if (payload.kind === "bytes") {
    const most = isWhole ? payload.bytes.length : SHOWN_LINES * ROW_BYTES;
    return { text: hexDump(payload.bytes.subarray(0, most)), isCut: payload.bytes.length > most };
  }
  return isWhole ? { text: payload.text, isCut: false } : cut(payload.text);
}

/** The beginning of a long text; never half of a character that takes two units. */
export function cut(
  text: string,
  characters = SHOWN_CHARACTERS,
  lines = SHOWN_LINES,
): { text: string; isCut: boolean } {
  let end = Math.min(text.length, characters);
  let found = -1;
  for (let line = 0; line < lines; line++) {
    found = text.indexOf("\n", found + 1);
    if (found < 0) break;
  }
  if (found >= 0) end = Math.min(end, found);
  if (end >= text.length) return { text, isCut: false };
  const isHalf = /[\uD800-\uDBFF]/.test(text.charAt(end - 1));
  return { text: text.slice(0, isHalf ? end - 1 : end), isCut: true };
}
