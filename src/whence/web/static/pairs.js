// Two inputs that a model embeds, texts or images: what of one goes with what of the other.
import { cancel, post, stopped } from "/static/api.js";
import { downloads, figureButton } from "/static/downloads.js";
import { pythonPair } from "/static/python.js";
import * as share from "/static/share.js";
import { arrived, busy, note, problem, quiet } from "/static/status.js";
import { duration } from "/static/timing.js";

const whence = globalThis.whence;
const { el } = whence;
const FIGURE = "/api/similarity/figure";

/** `page`: {view, info, state, input()}. Returns {compare, show, edited, forget}. */
export function pairing({ view, info, state, input }) {
  let answer = null; // what is shown: {request, asked, html, data, verdict, seconds}

  let latest = 0; // number of the last question: answers to those before it are not shown

  async function compare() {
    const turn = ++latest;
    share.write(state);
    try {
      const given = await input();
      check(given);
      const request = { ...given, method: state.methods[0] ?? "lrp", ...(state.measure ? { measure: state.measure } : {}) };
      busy("Comparing", () => cancel("explain"));
      const begun = performance.now();
      const made = await post("explain", "/api/similarity", request);
      if (turn !== latest) return null;
      answer = { ...made, request, asked: structuredClone(state), seconds: (performance.now() - begun) / 1000 };
      draw();
      whence.say(made.verdict);
      arrived();
    } catch (error) {
      if (turn !== latest) return null;
      if (stopped(error)) return quiet();
      problem(error, compare);
    }
    return null;
  }

  /** Two images go in one request, and have to fit into it together. */
  function check({ image, pair_image }) {
    const [size, most] = [Math.round((3 / 4) * ((image ?? "").length + (pair_image ?? "").length)), info.limits.image_bytes];
    if (!image || !pair_image || size <= most) return;
    const amount = (count) => count.toLocaleString("en");
    throw { message: `The two images have ${amount(size)} bytes; the limit is ${amount(most)} together.`, hint: "Make them smaller." };
  }

  function draw() {
    quiet();
    const { html, data, verdict, asked, seconds } = answer;
    const request = () => answer.request;
    const head = el(
      "div",
      { class: "topline" },
      el("p", { class: "w-quiet", text: `${asked.model} · ${duration(seconds)}` }),
      el("div", { class: "w-bar" }, linkButton(), pythonButton(), figureButton(request, FIGURE), downloads(request, FIGURE, ["csv"])),
    );
    mounted(view, { html, verdict }, (root) => whence.pair(root, data));
    view.prepend(head);
  }

  const pythonButton = () => whence.copyButton("Copy Python", () => pythonPair(answer.request));

  function linkButton() {
    return whence.copyButton("Copy link", () => {
      const { address, fits } = share.address(answer.asked);
      if (!fits) whence.say("The inputs are too long for an address: the link holds the settings alone.");
      return address;
    });
  }

  return {
    compare,
    show: () => (answer && share.question(answer.asked) === share.question(state) ? draw() : compare()),
    forget: () => (answer = null),
    /** The inputs are other than those that are compared. */
    edited: () => answer && note("The input has changed: this is the answer to the one before."),
  };
}

/** Elements that the server made, with all text in them escaped, brought to life under the sentence on what came out. */
export function mounted(view, { html, verdict }, live) {
  const box = el("div", { class: "w-board" });
  box.innerHTML = html;
  const said = el("section", { class: "w-card" }, el("div", {}, el("h2", { class: "w-verdict", text: verdict })));
  view.replaceChildren(said, box);
  live(box.firstElementChild);
  return box;
}
