// The form that sends observed timings: files chosen or dropped, what is said beside them, the way they go.

import { get, withQuery } from "./api.js";
import { setAsked } from "./address.js";
import { announce, byId, fill, h } from "./dom.js";
import { fieldset } from "./form.js";
import { bytesText, described } from "./calibration_fields.js";
import { count } from "./format.js";
import { clearProblem, showProblem } from "./problems.js";
import { refusalsOf } from "./calibration_refusals.js";
import { sendFiles } from "./calibration_sending.js";
import { counted, t } from "./texts.js";

const CALIBRATIONS = "/v1/calibrations";
const FIELDS = [
  { pointer: "/name", kind: "text", most: 200 },
  { pointer: "/profile", kind: "text", list: "profiles" },
  { pointer: "/tensor_parallel_size", kind: "number", step: 1, min: 1, max: 1024 },
  { pointer: "/num_gpus", kind: "number", step: 1, min: 1, max: 10_000_000 },
  { pointer: "/gpus_per_node", kind: "number", step: 1, min: 1, max: 1024 },
  { pointer: "/skip_steps", kind: "number", step: 1, min: 0, max: 100_000 },
  { pointer: "/confidence", kind: "number", step: "any", min: 0.5, max: 0.99, unit: "share" },
  { pointer: "/load_is_prefetched", kind: "select", options: "yes_no" },
  { pointer: "/no_communication_step_ms", kind: "number", step: "any", above: 0, unit: "ms" },
  { pointer: "/overlap_off_step_ms", kind: "number", step: "any", above: 0, unit: "ms" },
  { pointer: "/isolated_communication_ms", kind: "number", step: "any", above: 0, unit: "ms" },
];

/** Make the form work; `stored(calibration)` and `previewed(preview)` are told of what came. */
export function uploadForm({ stored, previewed }) {
  const form = byId("upload-form");
  const input = byId("files");
  const drop = byId("drop");
  const cancel = byId("cancel-sending");
  const place = byId("sending");
  const refusals = byId("upload-refusals");
  const fields = fieldset(FIELDS.map(described), { legend: t("calibrations.beside") });
  let files = [];
  let sending = null;

  fill(byId("upload-fields"), h("details", {}, h("summary", {}, t("calibrations.options")), fields.element));
  fields.field("/profile").input.setAttribute("list", "profiles");
  fields.show({});

  function choose(chosen) {
    // The same name twice is the newer one
    files = [...files.filter((one) => !chosen.some((other) => other.name === one.name)), ...chosen];
    showFiles();
  }

  function showFiles() {
    const list = byId("chosen");
    list.hidden = !files.length;
    const all = files.reduce((sum, file) => sum + file.size, 0);
    fill(
      list,
      files.map((file) =>
        h(
          "li",
          {},
          h("span", {}, file.name),
          h("span", { class: "quiet" }, bytesText(file.size)),
          h("button", { type: "button", class: "link", "aria-label": t("calibrations.remove_file", { name: file.name }), onclick: () => remove(file) }, t("calibrations.remove")),
        ),
      ),
      files.length > 1 ? h("li", { class: "quiet" }, h("span", {}, counted("calibrations.all_files", files.length, count(files.length))), h("span", {}, bytesText(all))) : null,
    );
    fill(refusals);
  }

  function remove(file) {
    files = files.filter((one) => one !== file);
    showFiles();
    input.focus();
  }

  function tell({ sent, all, isRead }) {
    const text = isRead
      ? t("calibrations.reading")
      : t("calibrations.sent", { sent: bytesText(sent), all: bytesText(all ?? sent) });
    const bar = h("progress", { "aria-label": t("calibrations.progress"), max: isRead ? null : (all ?? 1), value: isRead ? null : sent });
    fill(place, bar, h("p", { class: "hint" }, text));
    if (isRead) announce(text);
  }

  function busy(is) {
    place.hidden = !is;
    cancel.hidden = !is;
    for (const button of form.querySelectorAll("[type=submit]")) button.disabled = is;
  }

  async function send(isCheck) {
    clearProblem(form);
    fill(refusals);
    if (!files.length) return showProblem({ title: t("calibrations.no_files"), errors: [{ pointer: "/file", detail: t("calibrations.no_files"), isOwn: true }] }, { form });
    let query;
    try {
      query = fields.read();
    } catch (fault) {
      form.querySelector("details").open = true;
      return showProblem(fault, { form });
    }
    busy(true);
    tell({ sent: 0, all: files.reduce((sum, file) => sum + file.size, 0), isRead: false });
    sending = sendFiles(withQuery(CALIBRATIONS, { ...query, validate_only: isCheck ? true : null }), files, tell);
    cancel.focus();
    try {
      const found = await sending.done;
      if (isCheck) previewed(found);
      else stored(found);
    } catch (problem) {
      if (problem.name === "AbortError") announce(t("calibrations.was_canceled"));
      else failed(problem);
    } finally {
      sending = null;
      busy(false);
    }
    return undefined;
  }

  /** Refusals of files go into a table; of what was said beside them to its field. */
  function failed(problem) {
    const errors = (problem.errors ?? []).map((one) => (one.parameter ? { ...one, pointer: `/${one.parameter}` } : one));
    const ofFiles = errors.filter((one) => !one.parameter);
    if (problem.type?.endsWith("refused-timings") && ofFiles.length) {
      fill(refusals, refusalsOf(problem));
      refusals.querySelector("[tabindex]").focus();
      return;
    }
    if (errors.some((one) => one.parameter)) form.querySelector("details").open = true;
    showProblem(Object.assign(problem, { errors }), { form });
  }

  input.addEventListener("change", () => {
    choose([...input.files]);
    // So that the same file can be chosen again once it is removed
    input.value = "";
  });
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    choose([...event.dataTransfer.files]);
  });
  cancel.addEventListener("click", () => sending?.cancel());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.submitter?.value === "check");
  });
  addEventListener("beforeunload", (event) => sending && event.preventDefault());
  showLimits();
  return {
    setProfile(slug) {
      fields.field("/profile").set(slug);
      form.querySelector("details").open = true;
      setAsked({ of: slug });
    },
  };
}

async function showLimits() {
  const { limits } = await get("/v1/meta");
  byId("limits").textContent = t("calibrations.limits", {
    files: count(limits.calibration_files),
    bytes: bytesText(limits.calibration_bytes),
  });
}
