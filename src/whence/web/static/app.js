// The page: what is asked, what came back, and the views of it.
import { cancel, get, post, stopped } from "/static/api.js";
import { composer } from "/static/composer.js";
import { attention } from "/static/attention.js";
import { runs } from "/static/runs.js";
import { downloads } from "/static/downloads.js";
import { listen } from "/static/dropping.js";
import { content, take } from "/static/files.js";
import { MISSING, READS } from "/static/kinds.js";
import * as share from "/static/share.js";
import { busy, problem, quiet } from "/static/status.js";

const whence = globalThis.whence;
const { el } = whence;
const view = document.getElementById("view");
document.getElementById("theme").append(whence.themeButton());

const state = { model: "", text: "", image: null, sound: null, methods: [], target: "", against: "", tab: "explain" };
const memory = {}; // how the board is looked at; kept from answer to answer
let info = null;
let form = null;
let answer = null;
let shown = null; // the board

const kind = () => info.models.find((m) => m.name === state.model).kind;

/** The input as the server takes it, or what is missing. */
async function input() {
  const given = { model: state.model };
  for (const name of READS[kind()]) {
    if (!state[name]?.trim()) throw MISSING[name];
    given[name] = name === "text" ? state.text : await content(state[name]);
  }
  return given;
}

function asked() {
  if (state.against && state.target) return [{ this: state.target, that: state.against }];
  return state.target ? [state.target] : null;
}

async function explain() {
  share.write(state);
  if (state.tab === "attention") return show();
  if (!state.methods.length)
    return problem({ message: "No method is chosen.", hint: "Choose at least one under Methods." });
  busy("Explaining", () => cancel("explain"));
  try {
    const request = { ...(await input()), methods: state.methods, targets: asked() };
    answer = { ...(await post("explain", "/api/explain", request)), request };
    memory.target = answer.explanations[0]?.target;
    quiet();
    if (state.tab === "explain") draw();
    whence.say(`Done: ${answer.explanations.length} explanations of ${memory.target}`);
  } catch (error) {
    if (stopped(error)) return quiet();
    problem(error, explain);
  }
}

/** Explain another class of the same input and keep what is there: changing back costs nothing. */
async function another(label) {
  busy(`Explaining ${label}`, () => cancel("explain"));
  try {
    const more = await post("explain", "/api/explain", { ...answer.request, targets: [label] });
    answer.explanations.push(...more.explanations);
    memory.target = more.explanations[0]?.target ?? memory.target;
    answer.failed.push(...more.failed);
    remember(label);
    quiet();
    draw();
    document.querySelector(`.w-class[data-label="${CSS.escape(label)}"]`)?.focus();
    whence.say(`Explaining ${label}`);
  } catch (error) {
    if (stopped(error)) return quiet();
    problem(error, () => another(label));
  }
}

function remember(label) {
  Object.assign(state, { target: label, against: "" });
  share.write(state);
  form.draw();
}

function draw() {
  const board = el("div", { class: "w-board" });
  const seconds = answer.seconds < 1 ? `${Math.round(1000 * answer.seconds)} ms` : `${answer.seconds.toFixed(1)} s`;
  view.replaceChildren(
    el(
      "div",
      { class: "topline" },
      el("p", { class: "w-quiet", text: `${answer.model} · ${seconds}` }),
      el("div", { class: "w-bar" }, shareButton(), downloads(wanted)),
    ),
    board,
  );
  const summaries = Object.fromEntries(info.methods.map((m) => [m.name, m.summary]));
  if (!answer.explanations.length) {
    return board.append(
      ...answer.failed.map(({ method, message }) =>
        el(
          "div",
          { class: "w-card problem", role: "alert" },
          el("div", {}, el("p", { text: method }), el("p", { text: message })),
        ),
      ),
    );
  }
  shown = whence.board(board, answer, { memory, summaries, explain: another, changed: remember });
  return shown;
}

function shareButton() {
  return whence.copyButton("Copy link", () => {
    if (!share.write(state)) whence.say("The input is too long for an address: the link holds the settings alone.");
    return location.href;
  });
}

/** What is shown, as a request. npz holds one explanation: that of the method that is looked at. */
function wanted(format) {
  const methods = format === "npz" ? [memory.method ?? answer.explanations[0].method] : answer.request.methods;
  // a target that is no class (a contrast, a token) goes the way it was asked for
  const targets = answer.prediction.labels.includes(memory.target) ? [memory.target] : answer.request.targets;
  return { ...answer.request, methods, targets };
}

// -- tabs --------------------------------------------------------------------------------------------------------

const tabs = [...document.querySelectorAll('[role="tab"]')];

function choose(name, focus = false) {
  state.tab = name;
  for (const tab of tabs) {
    const on = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
    if (on && focus) tab.focus();
    if (on) document.getElementById("results").setAttribute("aria-labelledby", tab.id);
  }
  document.getElementById("composer").hidden = name === "runs";
  form.draw();
  document.getElementById("main").classList.toggle("alone", name === "runs");
  share.write(state);
  show();
}

async function show() {
  quiet();
  for (const work of ["attention", "runs", "row", "summary"]) cancel(work);
  if (state.tab === "runs") return runs(view, info);
  if (state.tab === "explain") return answer ? draw() : explain();
  try {
    return await attention(view, await input());
  } catch (error) {
    return stopped(error) ? quiet() : problem(error, show);
  }
}

for (const [n, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) choose(tabs[(n + step + tabs.length) % tabs.length].id.slice(4), true);
  });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) explain();
});
/** A file that was dropped, pasted or chosen. */
async function opened(dropped) {
  try {
    const { model, given } = await take(dropped, info, state);
    if (model !== state.model) return form.use(model, given);
    Object.assign(state, given);
    form.draw();
    return explain();
  } catch (error) {
    return problem(error);
  }
}

// -- start -------------------------------------------------------------------------------------------------------

function adopt(wanted) {
  const model = info.models.find((m) => m.name === wanted?.model) ?? info.models[0];
  Object.assign(
    state,
    { model: model.name, methods: [...info.default_methods], target: "", against: "" },
    wanted ?? {},
    { model: model.name },
  );
  state.methods = state.methods
    .filter((name) => model.methods.includes(name))
    .slice(0, info.limits.methods);
  if (!state.methods.length) state.methods = info.default_methods.filter((name) => model.methods.includes(name));
  // a file in an address may only be data or an example of this server
  const [reads, first] = [READS[model.kind], model.examples[0] ?? {}];
  for (const [name, type] of [["image", "data:image/"], ["sound", "data:audio/"]]) {
    const known = model.examples.some((example) => example[name] === state[name]);
    if (state[name] && !state[name].startsWith(type) && !known) state[name] = null;
    if (reads.includes(name)) state[name] ??= first[name] ?? null;
  }
  if (reads.includes("text") && !state.text && (!wanted || reads.length > 1)) state.text = first.text ?? "";
}

async function start() {
  try {
    info = await get("info", "/api/info");
  } catch (error) {
    return problem(error, start);
  }
  adopt(share.read());
  form = composer(document.getElementById("composer"), info, state, { explain, file: opened, play: (seconds) => shown?.play(seconds) });
  listen(opened);
  addEventListener("hashchange", () => {
    answer = null;
    adopt(share.read());
    form.draw();
    choose(state.tab);
  });
  return choose(["explain", "attention", "runs"].includes(state.tab) ? state.tab : "explain");
}

start();
