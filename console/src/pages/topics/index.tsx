// Topics: all of them at `#/topics`, one at `#/topics/NAME`.

import type { PageProps } from "../../ui/LazyPage";
import { TopicDetail } from "./TopicDetail";
import { TopicList } from "./TopicList";
import "./topics.css";

export function TopicsPage({ path }: PageProps) {
  const [name] = path;
  return name === undefined ? <TopicList /> : <TopicDetail key={name} name={name} />;
}
