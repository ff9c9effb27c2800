import { describe, expect, it } from "vitest";
import { humanValue, isOwn, parseSettings, sortSettings, type Setting } from "./config";

const setting = (source: string): Setting => ({ value: "1", source, read_only: false, sensitive: false });

describe("parseSettings", () => {
  it("takes lines of name=value", () => {
    expect(parseSettings("retention.ms = 60000\n\n# a remark\ncleanup.policy=compact,delete\n")).toEqual({
      config: { "retention.ms": "60000", "cleanup.policy": "compact,delete" },
    });
    expect(parseSettings("")).toEqual({ config: {} });
  });

  it("keeps what follows the first equals sign, also nothing", () => {
    expect(parseSettings("a=b=c\nd=")).toEqual({ config: { a: "b=c", d: "" } });
  });

  it.each([
    ["retention.ms", "Line 1 is not of the form name=value."],
    ["a=1\n=2", "Line 2 is not of the form name=value."],
    ["a=1\na=2", "Line 2: a is there twice."],
  ])("says what is wrong with %j", (text, problem) => {
    expect(parseSettings(text)).toEqual({ problem });
  });
});

describe("the topic's own settings", () => {
  it("are told from defaults and come first", () => {
    const config = {
      b: setting("default_config"),
      z: setting("dynamic_topic_config"),
      a: setting("static_broker_config"),
    };
    expect(sortSettings(config).map(({ name }) => name)).toEqual(["z", "a", "b"]);
    expect(isOwn(config.z)).toBe(true);
    expect(isOwn(config.a)).toBe(false);
  });
});

describe("humanValue", () => {
  it.each([
    ["retention.ms", "604800000", "7 d"],
    ["retention.ms", "5400000", "1.5 h"],
    ["retention.ms", "-1", "no limit"],
    ["max.message.bytes", "1048588", "1 MiB"],
    ["segment.bytes", "1073741824", "1 GiB"],
    ["retention.ms", "5", null],
    ["min.insync.replicas", "2000", null],
    ["retention.ms", "abc", null],
    ["retention.ms", null, null],
  ])("of %s=%s is %s", (name, value, human) => {
    expect(humanValue(name, value)).toBe(human);
  });
});
