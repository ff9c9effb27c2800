// Chunks of a CSV file: whole lines, at most so many bytes, and always the same for the same file, whoever cuts
// it and wherever the upload goes on. Pure but for the reading.
//
// To know where a chunk ends only the last bytes before its limit are needed, so going on with the thousandth
// chunk does not read the file from its beginning.

export const CHUNK_BYTES_MAX = 512 * 1024;
const LOOK_BYTES = 8 * 1024;
const LINE_FEED = 0x0a;

/** A file, or what stands for one in a test. */
export interface Source {
  readonly size: number;
  /** The bytes from `start` up to, not including, `end`. */
  read: (start: number, end: number) => Promise<Uint8Array<ArrayBuffer>>;
}

export class ChunkError extends Error {
  override readonly name = "ChunkError";
}

export class Cutter {
  readonly #source: Source;
  readonly #chunkBytes: number;
  /** Where chunks begin, as far as it is known; behind the last one the size of the file. */
  readonly #starts = [0];

  constructor(source: Source, chunkBytes = CHUNK_BYTES_MAX) {
    this.#source = source;
    this.#chunkBytes = chunkBytes;
  }

  /** The bytes of chunk `message`; null behind the last one. A last line without a line feed gets one. */
  async chunk(message: number): Promise<Uint8Array<ArrayBuffer> | null> {
    const start = await this.startOf(message);
    if (start === null || start >= this.#source.size) return null;
    const end = (await this.startOf(message + 1)) ?? this.#source.size;
    const bytes = await this.#source.read(start, end);
    return bytes.at(-1) === LINE_FEED ? bytes : withLineFeed(bytes);
  }

  /** Where chunk `message` begins; behind the last one that is the size of the file, and then null. */
  async startOf(message: number): Promise<number | null> {
    while (this.#starts.length <= message) {
      const start = this.#starts.at(-1) ?? 0;
      if (start >= this.#source.size) return null;
      this.#starts.push(await this.#endOf(start));
    }
    return this.#starts[message] ?? null;
  }

  async #endOf(start: number): Promise<number> {
    const limit = start + this.#chunkBytes;
    // With fewer bytes than a chunk may have there is always room for a last line feed.
    if (this.#source.size < limit) return this.#source.size;
    let look = LOOK_BYTES;
    for (let from = limit; from > start; look *= 4) {
      const until = from;
      from = Math.max(start, from - look);
      const found = (await this.#source.read(from, until)).lastIndexOf(LINE_FEED);
      if (found >= 0) return from + found + 1;
    }
    throw new ChunkError(
      `the line that begins at byte ${start} is longer than ${this.#chunkBytes} bytes, ` +
        "and so than any chunk may be",
    );
  }
}

function withLineFeed(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const longer = new Uint8Array(bytes.length + 1);
  longer.set(bytes);
  longer[bytes.length] = LINE_FEED;
  return longer;
}

export function sourceOf(file: Blob): Source {
  return {
    size: file.size,
    read: async (start, end) => new Uint8Array(await file.slice(start, end).arrayBuffer()),
  };
}
