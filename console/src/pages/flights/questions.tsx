// What is asked before something is gone for good.

import { remove } from "../../lib/api";
import { notify, notifyFailure } from "../../lib/notices";
import { confirm } from "../../ui/confirm";
import { forgetUpload } from "./uploader";
import { jobPath, shortId } from "./wire";

/** Whether it was done. */
export function deleteJob(job: string): Promise<boolean> {
  return askAndDelete(
    job,
    `Delete job ${shortId(job)}?`,
    "What was uploaded of it is dropped, and its results can not be read any more. This can not be undone.",
    "Delete the job",
  );
}

export function cancelUpload(job: string): Promise<boolean> {
  return askAndDelete(
    job,
    "Cancel the upload?",
    "The job is deleted, with all that was sent of it. To go on later, pause instead.",
    "Cancel and delete",
  );
}

async function askAndDelete(job: string, title: string, body: string, action: string): Promise<boolean> {
  if (!(await confirm({ title, body, action, danger: true }))) return false;
  forgetUpload(job);
  try {
    await remove(jobPath(job));
    notify(`Job ${shortId(job)} is deleted`);
    return true;
  } catch (error) {
    notifyFailure(error);
    return false;
  }
}
