// Files on their way: sent by XMLHttpRequest, which tells how many bytes have gone, and can be canceled.

import { goToSignIn, newKey, Problem } from "./api.js";
import { t } from "./texts.js";

// What was sent and not yet answered with success: files and query → its key.
const open_keys = new Map();

/**
 * POST `files` to `path`; `{done, cancel}`. `told({sent, all, isRead})`: bytes that have gone, and
 * whether all have, so that the service reads now. `done` is the document, or raises a `Problem`;
 * canceled, an error named AbortError. The same files and path keep their Idempotency-Key until they
 * succeed, as with `create`.
 */
export function sendFiles(path, files, told) {
  const request = new XMLHttpRequest();
  const wish = `${path} ${files.map((file) => `${file.name} ${file.size} ${file.lastModified}`).join("|")}`;
  if (!open_keys.has(wish)) open_keys.set(wish, newKey());
  const form = new FormData();
  for (const file of files) form.append("file", file, file.name);

  const done = new Promise((resolve, reject) => {
    request.upload.addEventListener("progress", ({ loaded, total, lengthComputable }) => {
      told({ sent: loaded, all: lengthComputable ? total : null, isRead: false });
    });
    request.upload.addEventListener("load", ({ loaded }) => told({ sent: loaded, all: loaded, isRead: true }));
    request.addEventListener("load", () => {
      if (request.status === 401) return goToSignIn();
      const document = parsed(request.responseText);
      if (request.status >= 200 && request.status < 300 && document) {
        open_keys.delete(wish);
        return resolve(document);
      }
      return reject(new Problem(request.status, document ?? { title: `HTTP ${request.status}` }));
    });
    request.addEventListener("error", () => {
      // A service that refuses early closes before all has gone: the browser tells no more of it.
      reject(new Problem(0, { title: t("common.unreachable"), detail: t("calibrations.broken_off") }));
    });
    request.addEventListener("abort", () => reject(new DOMException("canceled", "AbortError")));
  });
  request.open("POST", path);
  request.setRequestHeader("Accept", "application/json");
  request.setRequestHeader("Idempotency-Key", open_keys.get(wish));
  request.send(form);
  return { done, cancel: () => request.abort() };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
