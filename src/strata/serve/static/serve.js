// SPDX-License-Identifier: Apache-2.0
// Follows a study: puts the parts of the page that the server sends into it.
"use strict";

const followed = document.querySelector("[data-follow]");
const part = document.querySelector("[data-part]");
let asking = false;

// A link that has the focus keeps it, although it is another element then.
function put(element, html) {
  const held = element.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = [...element.querySelectorAll("[tabindex]")].map((each) => each.scrollLeft);
  element.innerHTML = html;
  element.querySelectorAll("[tabindex]").forEach((each, index) => { each.scrollLeft = scrolled[index] ?? 0; });
  const address = held?.getAttribute("href");
  const label = held?.getAttribute("aria-label");
  if (address) element.querySelector(`a[href="${CSS.escape(address)}"]`)?.focus({ preventScroll: true });
  else if (label) element.querySelector(`[aria-label="${CSS.escape(label)}"]`)?.focus({ preventScroll: true });
}

async function ask(version) {
  if (asking || !part || part.dataset.version === version) return;
  asking = true;
  try {
    const answer = await fetch(part.dataset.part, { headers: { Accept: "text/html" } });
    if (answer.ok) {
      put(part, await answer.text());
      part.dataset.version = answer.headers.get("X-Strata-Version");
    }
  } catch {
    // The server has gone; the line below says so.
  } finally {
    asking = false;
  }
}

function lost(is) {
  document.querySelector("#lost")?.remove();
  if (!is) return;
  const line = document.createElement("p");
  line.id = "lost";
  line.setAttribute("role", "status");
  line.textContent = "No longer up to date: strata serve has ended.";
  document.body.append(line);
}

for (const each of document.querySelectorAll("#console pre")) each.scrollTop = each.scrollHeight;
for (const each of document.querySelectorAll(".table, pre")) each.tabIndex = 0; // keys scroll what is wide

if (followed) {
  const source = new EventSource(followed.dataset.follow);
  source.addEventListener(followed.dataset.event, (event) => {
    lost(false);
    const said = JSON.parse(event.data);
    put(followed, said.html);
    if (said.version) ask(said.version);
  });
  source.addEventListener("error", () => lost(true));
  window.addEventListener("pagehide", () => source.close());
}
