// The two files that were chosen, looked at before anything is sent.

import { useState } from "preact/hooks";
import { messageOf } from "../../lib/failure";
import { notify } from "../../lib/notices";
import { sourceOf } from "./chunks";
import { firstLine, headerProblem, recognize } from "./header";
import type { FileName } from "./wire";

export interface Chosen {
  file: File;
  /** Why it can not be sent. */
  problem: string | null;
}

export interface ChosenFiles {
  chosen: Partial<Record<FileName, Chosen>>;
  /** One file is taken for what it was put to; several are told apart by their header lines. */
  choose: (files: readonly File[], place: FileName) => void;
}

export function useFiles(): ChosenFiles {
  const [chosen, setChosen] = useState<ChosenFiles["chosen"]>({});
  const look = async (file: File, place: FileName | null): Promise<void> => {
    const found = await examine(file, place);
    if (found === null) notify(`${file.name} is neither airports nor itineraries.`, "bad");
    else setChosen((before) => ({ ...before, [found.place]: { file, problem: found.problem } }));
  };
  return {
    chosen,
    choose: (files, place) => {
      for (const file of files) void look(file, files.length === 1 ? place : null);
    },
  };
}

async function examine(
  file: File,
  place: FileName | null,
): Promise<{ place: FileName; problem: string | null } | null> {
  try {
    const line = await firstLine(sourceOf(file));
    const kind = recognize(line);
    if (place === null) return kind === null ? null : { place: kind, problem: null };
    if (kind !== null && kind !== place) return { place, problem: `This is the file of the ${kind}.` };
    return { place, problem: headerProblem(place, line) };
  } catch (error) {
    return place === null ? null : { place, problem: `It can not be read: ${messageOf(error)}` };
  }
}

/** Files that can be sent; null while one of the wanted is missing or wrong. */
export function usable(
  chosen: ChosenFiles["chosen"],
  wanted: readonly FileName[],
): Partial<Record<FileName, File>> | null {
  const found: Partial<Record<FileName, File>> = {};
  for (const name of wanted) {
    const each = chosen[name];
    if (each === undefined || each.problem !== null) return null;
    found[name] = each.file;
  }
  return found;
}
