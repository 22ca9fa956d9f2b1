// What needs attention: faults and warnings of all parts, grouped by code, the worst first.

import { showDeadLetters } from "./dead_letters.js";
import { ago, bytes, count, el, reconcile, setAttribute, setText, whole } from "./dom.js";
import { oldMaps } from "./proxy.js";
import { belowOf } from "./totals.js";

const LITTLE_DISK = 0.05; // of the file system
const byId = (id) => document.getElementById(id);

/** Lists the findings of a topology and of the proxy's health; null: there is none. */
export function showAttention(topology, proxy) {
  const findings = [
    ...(topology === null ? [] : ofInstances(topology)),
    ...(topology === null ? [] : ofProcesses(topology)),
    ...(topology === null ? [] : ofPartitions(topology)),
    ...(topology === null ? [] : ofBroker(topology)),
    ...(proxy === null ? [] : ofProxy(proxy, topology)),
    ...(topology === null ? [] : declared(topology)),
  ];
  const codes = [...new Set(findings.map((finding) => finding.code))];
  const groups = codes.map((code) => {
    const of = findings.filter((finding) => finding.code === code);
    return { code, tone: of.some((finding) => finding.tone === "bad") ? "bad" : "warn", of };
  });
  groups.sort((a, b) => (a.tone === "warn") - (b.tone === "warn"));
  reconcile(
    byId("warnings"),
    groups,
    (group) => group.code,
    (group) => el("li", { "data-code": group.code }, el("b", {}, group.code), el("ul")),
    (item, group) => {
      setAttribute(item, "data-tone", group.tone);
      reconcile(
        item.lastElementChild,
        group.of,
        (finding) => finding.of ?? "",
        (finding) => el("li", {}, el("span"), ...buttonsOf(finding)),
        (line, finding) => setText(line.firstElementChild, finding.text),
      );
    },
  );
  byId("calm").hidden = topology === null || groups.length > 0;
  return groups.length;
}

/** What shows more about a finding. */
function buttonsOf({ code, of }) {
  if (code !== "dead-letters") return [];
  const button = el("button", { type: "button" }, "Show the records and why");
  button.addEventListener("click", () => showDeadLetters(of));
  return [" ", button];
}

function ofInstances({ instances, made_at: madeAt, epoch }) {
  const found = [];
  for (const instance of instances) {
    const { id, state, error, lost_at: lostAt, in_topology: placed, epoch: own } = instance;
    const add = (code, tone, text) => found.push({ code, tone, of: id, text });
    if (state === "lost") {
      add("instance-lost", "bad", `${id} was lost ${ago(madeAt - lostAt)}${error ? `: ${error}` : ""}.`);
    } else if (state === "unreachable") {
      add("instance-unreachable", "bad", `${id} does not answer: ${error}.`);
    } else if (state !== "running") {
      add(`instance-${state}`, "warn", `${id} is ${state}.`);
    } else if (instance.drained) {
      const left = instance.partitions ? `, and still has ${count(instance.partitions)}` : "";
      add("instance-drained", "warn", `${id} is drained: others take over its partitions${left}.`);
    } else if (!placed) {
      add("instance-without-group", "warn", `${id} runs, but is not in the topology.`);
    } else if (own && own !== epoch) {
      add("instance-epoch", "warn", `${id} has the topology ${own}, not ${epoch}.`);
    }
  }
  return found;
}

function ofProcesses({ instances }) {
  const found = [];
  for (const { id, process, ended_threads: ended } of instances) {
    const add = (code, tone, text) => found.push({ code, tone, of: id, text });
    if (ended?.length) {
      add("thread-ended", "bad", `A thread of ${id} has ended: ${ended.join(", ")}. Restart ${id}.`);
    }
    const { disk_free_bytes: free, disk_bytes: total } = process ?? {};
    if (total && free < LITTLE_DISK * total) {
      add("disk-nearly-full", "warn", `${id} has ${bytes(free)} of disk left, of ${bytes(total)}.`);
    }
  }
  const versions = new Map();
  for (const { id, process } of instances) {
    if (process) versions.set(process.version, [...(versions.get(process.version) ?? []), id]);
  }
  if (versions.size > 1) {
    const list = [...versions].map(([version, ids]) => `${version} on ${ids.join(", ")}`);
    found.push({ code: "versions-differ", tone: "warn", text: `${list.join("; ")}.` });
  }
  return found;
}

function ofPartitions({ views }) {
  const found = [];
  for (const { name, placement, replicas } of views) {
    const of = placement.length;
    const silent = placement.filter((p) => p.state !== "answerable").length;
    const below = belowOf(placement, replicas) - silent;
    const add = (code, tone, text) => found.push({ code, tone, of: name, text: `View ${name}: ${text}` });
    if (silent) {
      add("not-answerable", "bad", `${count(silent)} of ${count(of)} partitions cannot be read.`);
    }
    if (below) {
      add("below-replicas", "warn", `${count(below)} of ${count(of)} partitions can be read, but `
        + `on fewer than ${replicas} instances: the next failure may affect reads.`);
    }
  }
  return found;
}

function ofBroker({ instances }) {
  const reached = instances.filter((instance) => instance.broker);
  const silent = reached.filter(({ broker }) => broker.is_silent);
  if (!silent.length) return [];
  const longest = Math.max(...silent.map(({ broker }) => broker.silent_ms));
  const who = silent.length === reached.length ? "" : ` to ${silent.map(({ id }) => id).join(", ")}`;
  return [{
    code: "broker-silent",
    tone: "bad",
    text: `The Kafka broker has not answered${who} for ${whole(longest)}. Reads are answered from `
      + "what is stored; the lag is unknown until the broker is back.",
  }];
}

function ofProxy(proxy, topology) {
  return [...ofMaps(proxy, topology), ...ofDeployments(proxy, topology)];
}

function ofMaps(proxy, topology) {
  const old = oldMaps(proxy, topology);
  if (!old.length) return [];
  return [{
    code: "proxy-old-map",
    tone: "warn",
    text: `nginx routes by an old topology: ${old.join(", ")}; the backends have ${topology.epoch}. `
      + "Its requests still get the right answers, because backends pass them on.",
  }];
}

/** Backends of several deployments behind one proxy. */
function ofDeployments({ configured, service, application_id: used }, topology) {
  if (service && used && used !== service.current) {
    return [{
      code: "deployment-not-in-use",
      tone: "warn",
      text: `nginx sends requests to ${used}, because no instance of ${service.current}, the current `
        + `deployment of service ${service.name}, answers it.`,
    }];
  }
  const addresses = new Map();
  const services = new Set();
  for (const { application_id: id, address, service: name } of configured ?? []) {
    if (id === null) continue;
    addresses.set(id, [...(addresses.get(id) ?? []), address]);
    services.add(name ?? null);
  }
  if (addresses.size < 2 || (services.size === 1 && !services.has(null))) return [];
  const list = [...addresses].map(([id, of]) => `${id} (${of.join(", ")})`).join(" and ");
  const now = topology?.application_id ? ` Requests go to ${topology.application_id} now.` : "";
  return [{
    code: "two-deployments",
    tone: "bad",
    text: `QUERYABLE_BACKENDS of nginx names backends of ${addresses.size} deployments: ${list}. `
      + `nginx uses the topology of one of them.${now} Name the backends of one deployment, or set `
      + "QUERYABLE_SERVICE on all of them.",
  }];
}

/** The warnings in the document itself. */
function declared({ warnings, views }) {
  return [
    ...warnings.map((warning) => ({ tone: "warn", ...warning })),
    ...views.flatMap((view) => view.warnings.map(({ code, text }) => (
      { code, tone: isBad(code) ? "bad" : "warn", of: view.name, text: `View ${view.name}: ${text}` }))),
  ];
}

function isBad(code) {
  return code === "pipeline-failed" || code === "pipeline-stopped" || code === "definition-differs";
}
