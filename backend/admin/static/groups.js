// Consumer groups that deployments have left behind.

import { actionButton } from "./actions.js";
import { el, reconcile, setText } from "./dom.js";
import { request } from "./requests.js";

const TIMEOUT = 10_000; // ms

const byId = (id) => document.getElementById(id);

/** Lists the groups when the section is opened. */
export function startGroups() {
  byId("groups").addEventListener("toggle", () => {
    if (byId("groups").open) list();
  });
  byId("groups-again").addEventListener("click", list);
}

async function list() {
  const said = byId("groups-said");
  setText(said, "Asking the broker …");
  try {
    const answer = await request("admin/groups", AbortSignal.timeout(TIMEOUT));
    const document = await answer.json().catch(() => ({}));
    const groups = answer.ok ? document.groups : [];
    reconcile(byId("groups-list"), groups, ({ group }) => group, newGroup, () => {});
    if (!answer.ok) setText(said, document.detail ?? `status ${answer.status}`);
    else setText(said, groups.length ? "" : "There are none.");
  } catch {
    setText(said, "The backend did not answer.");
  }
}

function newGroup({ group }) {
  return el("li", {}, el("code", {}, group), actionButton(
    "Delete", `Delete the consumer group ${group}`, () => ({
      path: `admin/groups/${encodeURIComponent(group)}/delete`,
      body: {},
      question: `Delete the consumer group ${group}? It has no members and no offsets. A deployment `
        + "with this application id creates it again.",
      done: `The consumer group ${group} is deleted.`,
    })));
}
