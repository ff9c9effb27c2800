import { describe, expect, it } from "vitest";
import { SHOWN_LINES, cut, decodeBase64, hexDump, payloadOf, prettyJson, shownText } from "./payload";

describe("prettyJson", () => {
  it("indents", () => {
    expect(prettyJson('{"a":1,"b":[true,null,"x"]}')).toBe(
      '{\n  "a": 1,\n  "b": [\n    true,\n    null,\n    "x"\n  ]\n}',
    );
  });

  it("keeps every digit, order and repetition", () => {
    expect(prettyJson('{"id":9007199254740993,"b":1.10,"a":1e400,"a":2}')).toBe(
      '{\n  "id": 9007199254740993,\n  "b": 1.10,\n  "a": 1e400,\n  "a": 2\n}',
    );
  });

  it("is not led astray by what strings contain", () => {
    const text = '{"a{\\"b":"[1,2]: {,}\\\\"}';
    expect(JSON.parse(prettyJson(text)!)).toEqual(JSON.parse(text));
    expect(prettyJson(text)).toBe('{\n  "a{\\"b": "[1,2]: {,}\\\\"\n}');
  });

  it("leaves empty ones on one line, and takes white space as it comes", () => {
    expect(prettyJson(" { } ")).toBe("{}");
    expect(prettyJson("[[],{}]")).toBe("[\n  [],\n  {}\n]");
    expect(prettyJson('{\n"a"\t:\r\n1}')).toBe('{\n  "a": 1\n}');
  });

  it("means the same as what it was given", () => {
    const values = [[1, [2, [3, { a: { b: [] } }]]], { "": "", ü: "\u2028 😀", n: -1.5e-7, t: false }];
    for (const value of values) {
      expect(prettyJson(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2));
    }
  });

  it.each(["", "hello", "42", '"text"', "{not json}", '{"a":1', "[1,2", "null"])(
    "leaves %j alone",
    (text) => {
      expect(prettyJson(text)).toBeNull();
    },
  );
});

describe("payloadOf", () => {
  it("tells nothing from empty", () => {
    expect(payloadOf(null, undefined)).toEqual({ kind: "none" });
    expect(payloadOf("", undefined)).toEqual({ kind: "text", text: "" });
  });

  it("shows bytes as hex", () => {
    expect(payloadOf(null, "AP9B")).toEqual({ kind: "bytes", bytes: new Uint8Array([0, 255, 65]) });
    expect(payloadOf(null, "not base64!")).toEqual({ kind: "text", text: "not base64!" });
  });
});

describe("hexDump", () => {
  it("has sixteen to a line, with what is ASCII beside them", () => {
    const lines = hexDump(Uint8Array.from({ length: 18 }, (_, index) => 0x41 + index)).split("\n");
    expect(lines).toEqual([
      "00000000  41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50  ABCDEFGHIJKLMNOP",
      "00000010  51 52                                            QR",
    ]);
    expect(hexDump(new Uint8Array([0, 255]))).toContain("..");
    expect(hexDump(new Uint8Array())).toBe("");
  });

  it("reads base64 byte by byte", () => {
    expect(decodeBase64("AP8=")).toEqual(new Uint8Array([0, 255]));
    expect(decodeBase64("?")).toBeNull();
  });
});

describe("cut", () => {
  it("leaves short texts whole", () => {
    expect(cut("abc", 3)).toEqual({ text: "abc", isCut: false });
    expect(cut("a\nb", 100, 2)).toEqual({ text: "a\nb", isCut: false });
  });

  it("cuts by length and by lines", () => {
    expect(cut("abcdef", 3)).toEqual({ text: "abc", isCut: true });
    expect(cut("a\nb\nc\nd", 100, 2)).toEqual({ text: "a\nb", isCut: true });
  });

  it("does not cut a character in half", () => {
    expect(cut("a😀b", 2).text).toBe("a");
    expect(cut("a😀b", 3).text).toBe("a😀");
  });
});

describe("shownText", () => {
  it("writes out as many bytes as are shown", () => {
    const payload = { kind: "bytes", bytes: new Uint8Array(1_000_000) } as const;
    const begun = shownText(payload, false);
    expect(begun.isCut).toBe(true);
    expect(begun.text.split("\n")).toHaveLength(SHOWN_LINES);
    expect(shownText({ kind: "bytes", bytes: new Uint8Array(5) }, false).isCut).toBe(false);
    expect(shownText({ kind: "bytes", bytes: new Uint8Array(1000) }, true).text.split("\n")).toHaveLength(63);
  });

  it("shows all of a text when asked to", () => {
    const text = "x".repeat(10_000);
    expect(shownText({ kind: "text", text }, false).isCut).toBe(true);
    expect(shownText({ kind: "text", text }, true)).toEqual({ text, isCut: false });
  });
});
