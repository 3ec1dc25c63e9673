// Paths of a scenario as links to the page of inputs, which says where each number is found.

import { h } from "./dom.js";

/** A path of the scenario that leads to where its number is found. */
export function pathLink(path) {
  // Prices are no part of a scenario
  if (path === "rates") return h("a", { href: "/rates" }, h("code", {}, path));
  // Positions in lists have no entry of their own; nor have whole documents, which begin with their kind.
  const plain = path.replace(/\.\d+(?=\.|$)/g, "");
  return h("a", { href: `/inputs#${anchorOf(plain)}` }, h("code", {}, path));
}

const WHOLE = {
  slow_groups: "slow_groups.count",
  // Not in the model: that ranks load differently is told beside the load of all
  "variability.load": "load_ms",
  communication: "communication.kind",
  overlap: "overlap.kind",
  synchronization: "synchronization.kind",
  pipeline: "pipeline.schedule",
  failures: "failures.failures_per_1000_node_days",
  scaling: "scaling.kind",
  variability: "variability.transient.cv",
  "variability.spikes": "variability.spikes.probability",
  "variability.episodes": "variability.episodes.rate_per_gpu_day",
};

function anchorOf(path) {
  if (WHOLE[path]) return WHOLE[path];
  return /^variability\.(transient|persistent|node|replica|common)$/.test(path) ? `${path}.cv` : path;
}
