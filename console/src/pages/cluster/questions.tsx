// What is asked before a fault is tried, in words that say what will happen.

import { sendSignal, type Signal } from "../../lib/faults";
import { confirm } from "../../ui/confirm";

async function ask(
  target: string,
  signal: Signal,
  title: string,
  body: string,
  action: string,
): Promise<void> {
  if (await confirm({ title, body, action, danger: signal === "KILL" })) await sendSignal(target, signal);
}

export function killNode(id: number, leads: number): Promise<void> {
  const effect =
    leads > 0
      ? "The partitions that it leads elect new leaders from their in-sync replicas"
      : "It leads nothing now";
  return ask(
    String(id),
    "KILL",
    `Kill node ${id}?`,
    `Its process ends at once (SIGKILL). ${effect}, and the supervisor starts it again.`,
    `Kill node ${id}`,
  );
}

export function pauseNode(id: number): Promise<void> {
  return ask(
    String(id),
    "STOP",
    `Pause node ${id}?`,
    "Its process stands still (SIGSTOP), as on a machine that hangs, until you resume it. After a few seconds the others go on without it.",
    `Pause node ${id}`,
  );
}

/** Nothing can be lost by it, so nothing is asked. */
export function resumeNode(id: number): Promise<void> {
  return sendSignal(String(id), "CONT");
}

export function killController(): Promise<void> {
  return ask(
    "controller",
    "KILL",
    "Kill the controller?",
    "The process of the active controller ends at once (SIGKILL). The others elect a new one; messages flow meanwhile.",
    "Kill the controller",
  );
}

export function killLeader(topic: string): Promise<void> {
  return ask(
    `leader:${topic}`,
    "KILL",
    `Kill the leader of ${topic}?`,
    `The broker that leads partition 0 of ${topic} ends at once (SIGKILL). Another in-sync replica takes over, and producers go on without losing a message.`,
    "Kill the leader",
  );
}

export function killService(name: string): Promise<void> {
  const effect =
    name === "gateway"
      ? "This page loses its connection until the supervisor has started it again."
      : name === "supervisor"
        ? "The active controller starts a new one, which adopts the nodes that run."
        : name === "flights"
          ? "It is started again and goes on behind the last transaction: results stay exact."
          : "The supervisor starts it again.";
  return ask(
    name,
    "KILL",
    `Kill the ${name}?`,
    `Its process ends at once (SIGKILL). ${effect}`,
    `Kill the ${name}`,
  );
}
