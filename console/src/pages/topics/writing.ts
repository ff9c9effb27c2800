// Writing one message. The WebSocket takes keys and partitions; but a browser can not send a token with it,
// so where a token is needed the topic queue's endpoints do it, which take a value alone.

import { post } from "../../lib/api";
import { Unreachable } from "../../lib/failure";
import { topicPath } from "./message_log";

export interface NewMessage {
  readonly key: string | null;
  readonly value: string | null;
  readonly partition: number | null;
}

export interface Stored {
  readonly partition: number;
  readonly offset: number;
}

const ANSWER_MS_MAX = 15_000;

export function produce(topic: string, message: NewMessage, hasToken: boolean): Promise<Stored> {
  return hasToken ? produceByQueue(topic, message) : produceBySocket(topic, message);
}

async function produceByQueue(topic: string, message: NewMessage): Promise<Stored> {
  const { producer_id } = await post<{ producer_id: number }>("/producer/register", { topic });
  return post<Stored>("/producer/produce", { topic, producer_id, message: message.value ?? "" });
}

function produceBySocket(topic: string, message: NewMessage): Promise<Stored> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}${topicPath(topic)}/produce`);
    const deadline = setTimeout(
      () => finish(new Unreachable("no answer in time; the message may be stored nevertheless")),
      ANSWER_MS_MAX,
    );
    const finish = (outcome: Stored | Error): void => {
      clearTimeout(deadline);
      if (outcome instanceof Error) reject(outcome);
      else resolve(outcome);
      socket.close();
    };
    socket.onopen = () => socket.send(JSON.stringify(frameOf(message)));
    socket.onmessage = ({ data }) => finish(answerOf(String(data)));
    socket.onclose = ({ reason }) =>
      finish(new Unreachable(reason || "the gateway did not take the message"));
  });
}

/** What is sent: fields that are not given are left out. */
export function frameOf({ key, value, partition }: NewMessage): Record<string, string | number | null> {
  return { value, ...(key === null ? {} : { key }), ...(partition === null ? {} : { partition }) };
}

/** What came back: where the message is, or why it is not there. */
export function answerOf(text: string): Stored | Error {
  try {
    const told = JSON.parse(text) as Partial<Stored> & { message?: string };
    if (typeof told.partition === "number" && typeof told.offset === "number") {
      return { partition: told.partition, offset: told.offset };
    }
    return new Error(told.message ?? "the gateway's answer has no offset");
  } catch {
    return new Error("the gateway's answer is not JSON");
  }
}
