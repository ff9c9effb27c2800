// JSON lines: text in, objects out, wherever the network cut the text. Pure.

/** No line of results is nearly as long; whatever is, is something else. */
const LINE_LENGTH_MAX = 1024 * 1024;

export class NdjsonError extends Error {
  override readonly name = "NdjsonError";
}

export class NdjsonParser {
  #rest = "";

  /** The objects of all lines that are whole now. */
  push(text: string): unknown[] {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > LINE_LENGTH_MAX) throw new NdjsonError("a line of the results has no end");
    return lines.filter((line) => line.trim() !== "").map(parse);
  }

  /** Whether a line has begun and not ended: then something is missing. */
  get isInLine(): boolean {
    return this.#rest.trim() !== "";
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new NdjsonError(`a line of the results is not JSON: ${line.slice(0, 80)}`);
  }
}
