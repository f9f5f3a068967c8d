// Two texts that a model embeds: what of one goes with what of the other.
import { cancel, post, stopped } from "/static/api.js";
import * as share from "/static/share.js";
import { busy, problem, quiet } from "/static/status.js";

const whence = globalThis.whence;
const { el } = whence;

/** Draw why the two texts of `given` are similar into `view`. */
export async function pairs(view, state, given) {
  share.write(state);
  busy("Comparing", () => cancel("explain"));
  try {
    const request = { ...given, method: state.methods[0] ?? "lrp" };
    const { html, data } = await post("explain", "/api/similarity", request);
    quiet();
    mounted(view, html, (root) => whence.pair(root, data));
    whence.say("Compared");
  } catch (error) {
    if (stopped(error)) return quiet();
    problem(error, () => pairs(view, state, given));
  }
  return null;
}

/** Elements that the server made, with all text in them escaped, brought to life. */
export function mounted(view, html, live) {
  const box = el("div", { class: "w-board" });
  box.innerHTML = html;
  view.replaceChildren(el("h2", { class: "w-unseen", text: "Where it came from" }), box);
  live(box.firstElementChild);
  return box;
}
