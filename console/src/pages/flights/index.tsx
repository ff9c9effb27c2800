// Flights: all jobs at `#/flights`, one at `#/flights/JOB`.

import type { PageProps } from "../../ui/LazyPage";
import { JobList } from "./JobList";
import { JobPage } from "./JobPage";
import "./flights.css";

export function FlightsPage({ path }: PageProps) {
  const [job] = path;
  return job === undefined ? <JobList /> : <JobPage key={job} id={job} />;
}
