// The write tab: a language model goes on with a text, and every word it wrote shows where it came from; with documents,
// an answer is written from them, and cites them.
import { cancel, post, stopped, stream } from "/static/api.js";
import { mounted } from "/static/pairs.js";
import { busy, problem, quiet } from "/static/status.js";

const whence = globalThis.whence;
const { el } = whence;
const memory = { view: "words" };
const kept = { generate: 12, documents: "" }; // what was asked for last

/** What can be asked beside the prompt. */
export function writingFields(info) {
  const count = el("input", { type: "number", id: "generate", min: 1, max: info.limits.generate, step: 1 });
  count.value = kept.generate;
  count.addEventListener("change", () => (kept.generate = Math.max(1, Math.min(info.limits.generate, Number(count.value) || 1))));
  const documents = el("textarea", {
    id: "documents",
    class: "short",
    dir: "auto",
    spellcheck: "false",
    placeholder: "None. Or paste texts, with an empty line between two: the prompt is then a question about them.",
  });
  documents.value = kept.documents;
  documents.addEventListener("input", () => (kept.documents = documents.value));
  return [
    el("div", { class: "field" }, el("label", { for: "generate", text: `Tokens to write, up to ${info.limits.generate}` }), count),
    el("div", { class: "field" }, el("label", { for: "documents", text: "Documents to answer from" }), documents),
  ];
}

/** Let the model write. `given`: {model, text}; `state.methods` has the method. */
export async function writing(view, info, state, given) {
  const method = state.methods[0] ?? info.default_methods[0];
  const documents = kept.documents.split(/\n\s*\n/).map((text) => text.trim()).filter(Boolean);
  busy(documents.length ? "Answering" : "Writing", () => cancel("write"));
  try {
    if (documents.length) {
      const request = { model: given.model, question: given.text, documents, generate: Math.max(kept.generate, 16) };
      const { html, data, verdict } = await post("write", "/api/cite", request);
      quiet();
      return mounted(view, { html, verdict }, (root) => whence.cited(root, data));
    }
    const text = el("span", { class: "fresh" });
    view.replaceChildren(
      el("section", { class: "w-card" }, el("h2", { class: "small", text: "Written" }), el("p", { class: "w-text", dir: "auto", "aria-live": "polite" }, given.text, text)),
    );
    await stream("write", "/api/write", { ...given, generate: kept.generate, method }, (event) => {
      if (event.event === "token") text.append(event.text);
      else if (event.event === "trace") traced(view, info, event, { ...given, method });
    });
    quiet();
  } catch (error) {
    if (stopped(error)) return quiet();
    problem(error, () => writing(view, info, state, given));
  }
  return null;
}

/** The trace, and a question about one of its words. */
function traced(view, info, { data }, asked) {
  const root = el("div", { class: "w-trace", id: "whence-trace" });
  const below = el("div", { class: "w-board" });
  view.replaceChildren(el("h2", { class: "w-unseen", text: "Where it came from" }), root, rather(data, asked, info, below), below);
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
