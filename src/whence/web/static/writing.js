// The write tab: a language model goes on with a text, and every word it wrote shows where it came from; with documents,
// an answer is written from them, and cites them.
import { cancel, post, stopped, stream } from "/static/api.js";
import { mounted } from "/static/pairs.js";
import { pythonCited, pythonWritten } from "/static/python.js";
import * as share from "/static/share.js";
import { busy, note, problem, quiet } from "/static/status.js";
import { duration } from "/static/timing.js";

const whence = globalThis.whence;
const { el } = whence;
const memory = { view: "words" };
const LEAST = 16; // tokens of an answer from documents: fewer state nothing

/** What can be asked beside the prompt. `typed()` when it was changed. */
export function writingFields(info, state, typed) {
  const count = el("input", { type: "number", id: "generate", min: 1, max: info.limits.generate, step: 1 });
  count.value = state.generate;
  count.addEventListener("change", () => {
    state.generate = Math.max(1, Math.min(info.limits.generate, Math.round(Number(count.value)) || 1));
    count.value = state.generate;
    typed();
  });
  const documents = el("textarea", {
    id: "documents",
    class: "short",
    dir: "auto",
    spellcheck: "false",
    placeholder: "None. Or paste texts, with an empty line between two: the prompt is then a question about them.",
  });
  documents.value = state.documents;
  documents.addEventListener("input", () => {
    state.documents = documents.value;
    typed();
  });
  return [
    el("div", { class: "field" }, el("label", { for: "generate", text: `Tokens to write, up to ${info.limits.generate}` }), count),
    el("div", { class: "field" }, el("label", { for: "documents", text: "Documents to answer from" }), documents),
  ];
}

/** What is asked, as two states with the same have the same answer. */
const question = ({ model, text, methods, generate, documents }) => JSON.stringify([model, text, methods[0], generate, documents]);

/** `page`: {view, info, state, input()}. Returns {write, show, edited, forget}. */
export function writing({ view, info, state, input }) {
  let answer = null; // {asked, draw(), python}: what was written last

  async function write() {
    share.write(state);
    try {
      const given = await input();
      const method = state.methods[0] ?? info.default_methods[0];
      const documents = state.documents.split(/\n\s*\n/).map((text) => text.trim()).filter(Boolean);
      busy(documents.length ? "Answering" : "Writing", () => cancel("write"));
      await (documents.length ? cite(given, documents, method) : go(given, method));
      quiet();
      const narrow = matchMedia("(max-width: 60rem)").matches;
      if (narrow && document.body.dataset.asked) document.getElementById("results").scrollIntoView({ block: "start" });
      document.body.dataset.asked = "yes";
    } catch (error) {
      if (stopped(error)) return quiet();
      problem(error, write);
    }
    return null;
  }

  async function cite(given, documents, method) {
    const asked = structuredClone(state);
    const begun = performance.now();
    const request = { model: given.model, question: given.text, documents, generate: Math.max(state.generate, LEAST), method };
    const { html, data, verdict } = await post("write", "/api/cite", request);
    const draw = () => {
      mounted(view, { html, verdict }, (root) => whence.cited(root, data));
      view.prepend(topline());
    };
    answer = { asked, python: pythonCited(request), draw, seconds: (performance.now() - begun) / 1000 };
    draw();
    whence.say(verdict);
  }

  async function go(given, method) {
    const asked = structuredClone(state);
    const begun = performance.now();
    const request = { ...given, generate: state.generate, method };
    const text = el("span", { class: "fresh" });
    const written = el("p", { class: "w-text", dir: "auto", "aria-live": "polite" }, given.text, text);
    view.replaceChildren(el("section", { class: "w-card" }, el("h2", { class: "small", text: "Written" }), written));
    await stream("write", "/api/write", request, (event) => {
      if (event.event === "token") text.append(event.text);
      if (event.event !== "trace") return;
      const draw = () => traced(view, info, event, { ...given, method }, topline());
      answer = { asked, python: pythonWritten(request), draw, seconds: (performance.now() - begun) / 1000 };
      draw();
      whence.say(event.verdict);
    });
  }

  function topline() {
    const link = () => {
      const { address, fits } = share.address(answer.asked);
      if (!fits) whence.say("The input is too long for an address: the link holds the settings alone.");
      return address;
    };
    const buttons = [whence.copyButton("Copy link", link), whence.copyButton("Copy Python", () => answer.python)];
    return el("div", { class: "topline" }, el("p", { class: "w-quiet", text: `${answer.asked.model} · ${duration(answer.seconds)}` }), el("div", { class: "w-bar" }, buttons));
  }

  return {
    write,
    show: () => (answer && question(answer.asked) === question(state) ? answer.draw() : write()),
    forget: () => (answer = null),
    /** What is asked is other than what is shown. */
    edited: () => answer && question(answer.asked) !== question(state) && note("The input has changed: this is the answer to the one before."),
  };
}

/** The trace under a sentence on it, and a question about one of its words. */
function traced(view, info, { data, verdict }, asked, top) {
  const root = el("div", { class: "w-trace", id: "whence-trace" });
  const below = el("div", { class: "w-board" });
  const said = el("section", { class: "w-card" }, el("div", {}, el("h2", { class: "w-verdict", dir: "auto", text: verdict })));
  view.replaceChildren(top, said, root, rather(data, asked, info, below), below);
  whence.trace(root, data);
}

/** Why this word rather than another: the model is asked about that one place. */
function rather(data, { model, text, method }, info, below) {
  const written = data.places.map(([start, stop]) => data.tokens.slice(start, stop).join(""));
  const choice = el(
    "select",
    { id: "written", class: "w-input" },
    written.map((token, n) => el("option", { value: n, text: `${n + 1}: ${token.trim() || JSON.stringify(token)}` })),
  );
  const other = el("input", { type: "text", id: "rather", class: "w-input", placeholder: "the next likeliest" });
  const methods = Object.fromEntries(info.methods.map((m) => [m.name, m]));
  const form = el(
    "form",
    { class: "w-card rather" },
    el("h2", { class: "small", text: "Why this rather than that?" }),
    el(
      "div",
      { class: "w-bar" },
      el("label", { for: "written", text: "Why did it write" }),
      choice,
      el("label", { for: "rather", text: "rather than" }),
      other,
      el("button", { type: "submit", class: "w-button", text: "Explain" }),
    ),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const n = Number(choice.value);
    const before = text + written.slice(0, n).join("");
    // a word in the middle of a text begins with its space
    const that = other.value && written[n].startsWith(" ") && !other.value.startsWith(" ") ? ` ${other.value}` : other.value;
    const targets = that ? [{ this: written[n], that }] : [written[n]];
    busy("Explaining", () => cancel("explain"));
    try {
      const found = await post("explain", "/api/explain", { model, text: before, methods: [method], targets });
      quiet();
      whence.board(below, found, { memory, methods });
      below.scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (stopped(error)) quiet();
      else problem(error);
    }
  });
  return form;
}
