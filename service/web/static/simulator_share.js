// Taking the scenario elsewhere: its link, its request, a profile or a batch made of it.

import { announce, byId, fill, h } from "./dom.js";
import { may, session } from "./session.js";
import { addressOf } from "./simulator_address.js";
import { batchDialog, profileDialog } from "./simulator_dialogs.js";
import { evaluationBody } from "./simulator_requests.js";
import { t } from "./texts.js";

/** A text as one word of a POSIX shell, whatever is in it. */
export function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The request that answers the figures, for a shell. The key is the reader's own: it is not written. */
export async function curlOf(store) {
  const { is_open: isOpen } = await session();
  const key = isOpen ? "" : ' \\\n  -H "Authorization: Bearer $TRAINARD_KEY"';
  return `curl -sS -X POST ${quoted(`${location.origin}/v1/evaluations`)} \\\n  -H ${quoted("Content-Type: application/json")}${key} \\\n  --data-binary ${quoted(JSON.stringify(evaluationBody(store)))}`;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not allowed, or not over HTTPS: the text is shown to be copied by hand
  }
}

export async function share(store) {
  const place = byId("share-buttons");
  const shown = h("div", { id: "shared", hidden: true });

  async function give(name, text) {
    const isCopied = await copy(text);
    const told = isCopied ? t("common.copied") : t("simulator.copy_by_hand");
    fill(
      shown,
      h("p", { class: "small", role: "status" }, `${t(`simulator.share_${name}`)}: ${told}`),
      h("pre", { tabindex: 0, "data-shared": name, "aria-label": t(`simulator.share_${name}`) }, text),
    );
    shown.hidden = false;
    announce(told);
  }
  const button = (name, work) => h("button", { type: "button", "data-share": name, onclick: work }, t(`simulator.share_${name}`));
  const makers = [
    ["profile", "profiles:write", () => profileDialog(store)],
    ["batch", "batches:write", () => batchDialog(store)],
  ];
  const made = [];
  const reasons = [];
  for (const [name, scope, work] of makers) {
    const made_ = button(name, work);
    made_.classList.add("primary");
    if (!(await may(scope))) {
      made_.disabled = true;
      const id = `why-not-${name}`;
      made_.setAttribute("aria-describedby", id);
      reasons.push(h("p", { class: "hint", id }, `${t(`simulator.share_${name}`)}: ${t("common.not_permitted", { scope })}`));
    }
    made.push(made_);
  }
  fill(
    place,
    button("link", () => give("link", location.origin + addressOf(store))),
    button("curl", async () => give("curl", await curlOf(store))),
    button("json", () => give("json", JSON.stringify(evaluationBody(store), null, 2))),
    ...made,
  );
  place.after(...reasons, shown);
}
