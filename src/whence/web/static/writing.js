// The write tab: a language model goes on with a text, and every word it wrote shows where it came from; with documents,
// an answer is written from them, and cites them.
import { cancel, post, stopped, stream } from "/static/api.js";
import { downloads, figureButton } from "/static/downloads.js";
import { mounted } from "/static/pairs.js";
import { pythonCited, pythonWritten } from "/static/python.js";
import * as share from "/static/share.js";
import { arrived, busy, note, problem, quiet } from "/static/status.js";
import { duration } from "/static/timing.js";

const whence = globalThis.whence;
const { el } = whence;
const memory = { view: "words" };
const LEAST = 16; // tokens of an answer from documents: fewer state nothing

/** Whether the prompt is a message that the model answers. */
const chats = (info, state) => state.chat && info.models.find((m) => m.name === state.model).chats;

/** The prompt as the user's message, behind what the model is told to be. */
function messagesOf({ text, system }) {
  const said = [{ role: "user", content: text }];
  return system.trim() ? [{ role: "system", content: system }, ...said] : said;
}

/** Whether the model is asked as a chat, and a system prompt, where it has a template for them. */
function chatFields(info, state, typed) {
  if (!info.models.find((m) => m.name === state.model).chats) return null;
  const system = el("textarea", { id: "system", class: "short", dir: "auto", spellcheck: "false", placeholder: "None, or the model's own" });
  system.value = state.system;
  system.addEventListener("input", () => {
    state.system = system.value;
    typed();
  });
  const more = el("details", { class: "more" }, el("summary", { text: "System prompt" }), el("div", { class: "field" }, el("label", { class: "w-unseen", for: "system", text: "System prompt" }), system));
  more.open = Boolean(state.system);
  const asChat = whence.toggle("As a chat", state.chat, (on) => {
    state.chat = on;
    more.hidden = !on;
    typed();
  });
  asChat.title = "The prompt is a message to the model, in its chat template; else a text that it goes on with";
  more.hidden = !state.chat;
  return el("div", { class: "chatting" }, asChat, more);
}

/** What can be asked beside the prompt. `typed()` when it was changed. */
export function writingFields(info, state, typed) {
  const chatting = chatFields(info, state, typed);
  const fit = () => chatting && (chatting.hidden = Boolean(state.documents.trim())); // a question about documents has a form of its own
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
    fit();
    typed();
  });
  fit();
  return [
    ...(chatting ? [chatting] : []),
    el("div", { class: "field" }, el("label", { for: "generate", text: `Tokens to write, up to ${info.limits.generate}` }), count),
    el("div", { class: "field" }, el("label", { for: "documents", text: "Documents to answer from" }), documents),
  ];
}

/** What is asked, as two states with the same have the same answer. */
const question = ({ model, text, methods, generate, documents, chat, system }) =>
  JSON.stringify([model, text, methods[0], generate, documents, chat, chat && system]);

/** `page`: {view, info, state, input()}. Returns {write, show, edited, forget}. */
export function writing({ view, info, state, input }) {
  let answer = null; // {asked, draw(), python, seconds, file}: what was written last

  let latest = 0; // number of the last question: answers to those before it say nothing of how it went

  async function write() {
    const turn = ++latest;
    share.write(state);
    try {
      const given = await input();
      const method = state.methods[0] ?? info.default_methods[0];
      const documents = state.documents.split(/\n\s*\n/).map((text) => text.trim()).filter(Boolean);
      busy(documents.length ? "Answering" : "Writing", () => cancel("write"));
      await (documents.length ? cite(given, documents, method) : go(given, method));
      if (turn !== latest) return null;
      quiet();
      arrived();
    } catch (error) {
      if (turn !== latest) return null;
      if (stopped(error)) return quiet();
      problem(error, write);
    }
    return null;
  }

  async function cite(given, documents, method) {
    const asked = structuredClone(state);
    const begun = performance.now();
    const request = { model: given.model, question: given.text, documents, generate: Math.max(state.generate, LEAST), method };
    const { html, data, verdict, ids } = await post("write", "/api/cite", request);
    const { generate, ...rest } = request;
    const file = { path: "/api/cite/figure", request: { ...rest, answer: ids }, without: ["csv", "npz"] };
    const draw = () => {
      mounted(view, { html, verdict }, (root) => whence.cited(root, data));
      view.prepend(topline());
    };
    answer = { asked, file, python: pythonCited(request), draw, seconds: (performance.now() - begun) / 1000 };
    draw();
    whence.say(verdict);
  }

  async function go(given, method) {
    const asked = structuredClone(state);
    const begun = performance.now();
    const chat = chats(info, state);
    const prompt = { model: given.model, ...(chat ? { messages: messagesOf({ ...state, text: given.text }) } : { text: given.text }) };
    const request = { ...prompt, generate: state.generate, method };
    const text = el("span", { class: "fresh" });
    view.replaceChildren(el("section", { class: "w-card writing" }, chat ? conversation(prompt.messages, text) : goingOn(given.text, text)));
    await stream("write", "/api/write", request, (event) => {
      if (event.event === "token") text.append(event.text);
      if (event.event !== "trace") return;
      const draw = () => traced(view, info, event, { prompt, method }, topline());
      const file = { path: "/api/write/figure", request: { ...prompt, continuation: event.ids, method }, without: ["csv"] };
      answer = { asked, file, python: pythonWritten(request), draw, seconds: (performance.now() - begun) / 1000 };
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
    const { path, request, without } = answer.file;
    const buttons = [
      whence.copyButton("Copy link", link),
      whence.copyButton("Copy Python", () => answer.python),
      figureButton(() => request, path),
      downloads(() => request, path, without),
    ];
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

/** A text, and what comes behind it while it is written. */
const goingOn = (prompt, text) => [
  el("h2", { class: "small", text: "Written" }),
  el("p", { class: "w-text", dir: "auto", "aria-live": "polite" }, prompt, text),
];

/** Messages, and the answer under them while it is written. */
function conversation(messages, text) {
  const passage = (name, own, ...said) =>
    el("div", { class: `w-passage${own ? " w-own" : ""}` }, el("div", { class: "w-who", text: name }), el("div", { class: "w-text", dir: "auto", ...(own ? { "aria-live": "polite" } : {}) }, said));
  return [...messages.map(({ role, content }) => passage(role, false, content)), passage("written", true, text)];
}

/** The trace under a sentence on it, and a question about one of its words. */
function traced(view, info, { data, verdict, ids }, { prompt, method }, top) {
  const root = el("div", { class: "w-trace", id: "whence-trace" });
  const below = el("div", { class: "w-board" });
  const said = el("section", { class: "w-card" }, el("div", {}, el("h2", { class: "w-verdict", text: verdict })));
  view.replaceChildren(top, said, root, rather(data, { ...prompt, continuation: ids, methods: [method] }, info, below), below);
  whence.trace(root, data);
}

/** Why this word rather than another: the model is asked about that one place. `asked`: prompt, what was written, method. */
function rather(data, asked, info, below) {
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
    // a word in the middle of a text begins with its space
    const that = other.value && written[n].startsWith(" ") && !other.value.startsWith(" ") ? ` ${other.value}` : other.value;
    const targets = [{ written: n, ...(that ? { than: that } : {}) }];
    busy("Explaining", () => cancel("explain"));
    try {
      const found = await post("explain", "/api/explain", { ...asked, targets });
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
