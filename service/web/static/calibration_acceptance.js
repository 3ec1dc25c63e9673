// Making a profile's next revision of a calibration: which profile, which values, what would change.

import { ask, create, get } from "./api.js";
import { byId, fill, h, settled } from "./dom.js";
import { fieldset } from "./form.js";
import { exact } from "./format.js";
import { withOverrides } from "./calibration_coarse.js";
import { described } from "./calibration_fields.js";
import { leaveSaying } from "./carried_word.js";
import { showProblem } from "./problems.js";
import { changesOf, labelOf, unitOf, valueText } from "./scenario_table.js";
import { onSubmit } from "./submit.js";
import { t } from "./texts.js";

const PROFILES = "/v1/cluster-profiles";
const SLUG = /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/;
const NEW = "";

/** The form; `taken()` are the chosen paths. `{update()}`: what would change, anew. */
export async function acceptanceForm(calibration, taken) {
  const form = byId("accept");
  const { items } = await get(`${PROFILES}?page_size=200`);
  const options = [...items.map((one) => [one.slug, `${one.slug} · ${one.name}`]), [NEW, t("calibrations.new_profile")]];
  const about = calibration.profile?.split("@")[0];
  const fields = fieldset([
    { ...described({ pointer: "/existing", kind: "select" }), options },
    { ...described({ pointer: "/profile", kind: "text", required: true }), label: t("profiles.slug"), hint: t("profiles.slug_hint"), pattern: SLUG, wanted: t("common.give_slug") },
    { pointer: "/new_profile/name", kind: "text", required: true, label: t("profiles.name") },
    { pointer: "/new_profile/gpu_type", kind: "text", required: true, label: t("profiles.gpu_type"), hint: t("profiles.gpu_type_hint") },
    { pointer: "/new_profile/cost_center", kind: "text", label: t("profiles.cost_center"), hint: t("profiles.cost_center_hint") },
    { pointer: "/new_profile/tags", kind: "pairs", rows: 2, label: t("profiles.tags"), hint: t("profiles.tags_hint") },
    { ...described({ pointer: "/scenario", kind: "json" }), rows: 4 },
  ]);
  let profile = null;
  let asked = 0;

  fill(byId("accept-fields"), fields.element);
  // Whose timings they are is known, or somebody says it: no profile is changed by chance
  fields.show({ existing: items.some((one) => one.slug === about) ? about : NEW, new_profile: { name: calibration.name, tags: {} } });
  const existing = fields.field("/existing");

  async function chosen() {
    const slug = existing.value();
    const mine = (asked += 1);
    for (const one of fields.fields.slice(1, 6)) one.element.hidden = slug !== NEW;
    profile = slug === NEW ? null : (await ask("GET", `${PROFILES}/${encodeURIComponent(slug)}`)).data;
    if (mine === asked) update();
  }

  function overrides() {
    const values = new Set(taken());
    return Object.fromEntries(Object.entries(calibration.findings.proposal.overrides).filter(([path]) => values.has(path)));
  }

  /** What the revision would say beside the one before it. */
  function update() {
    const place = byId("accept-changes");
    let more = {};
    try {
      more = fields.field("/scenario").value() ?? {};
    } catch {
      // It is being typed.
    }
    if (!profile) return fill(place);
    const changes = changesOf(profile.defaults, withOverrides(profile.defaults, { ...overrides(), ...more }));
    const lines = changes.map((one) =>
      h("li", {}, `${labelOf(one.path)}${t("profiles.colon")} `, h("s", {}, valueText(one.before)), " → ", h("strong", {}, valueText(one.after)), ` ${unitOf(one.path)}`),
    );
    return fill(
      place,
      h("p", { class: "label" }, t("calibrations.would_change", { slug: profile.slug, revision: exact(profile.revision + 1) })),
      lines.length ? h("ul", { class: "changes" }, lines) : h("p", { class: "hint" }, t("profiles.nothing_changed")),
    );
  }

  existing.onChange(() => chosen().catch((problem) => showProblem(problem, { form })));
  fields.field("/scenario").onChange(settled(update, 300));
  onSubmit(form, async () => {
    const read = fields.read();
    const body = {
      profile: profile ? profile.slug : read.profile,
      profile_version: profile ? profile.version : null,
      new_profile: profile ? null : read.new_profile,
      take: taken(),
      scenario: read.scenario ?? null,
    };
    const { data } = await create(`/v1/calibrations/${calibration.id}/acceptance`, body);
    leaveSaying(`/profiles/${data.slug}`, t("calibrations.was_accepted", { revision: exact(data.revision) }));
  });
  form.hidden = false;
  await chosen();
  return { update };
}
