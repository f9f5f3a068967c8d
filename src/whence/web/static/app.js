// The page: what is asked, what came back, and the views of it.
import { cancel, get, stopped } from "/static/api.js";
import { attention } from "/static/attention.js";
import { composer } from "/static/composer.js";
import { listen } from "/static/dropping.js";
import { explaining } from "/static/explaining.js";
import { content, take } from "/static/files.js";
import { MISSING, READS } from "/static/kinds.js";
import { pairs } from "/static/pairs.js";
import { runs } from "/static/runs.js";
import * as share from "/static/share.js";
import { problem, quiet } from "/static/status.js";
import { debounced } from "/static/timing.js";
import { writing } from "/static/writing.js";

const whence = globalThis.whence;
const view = document.getElementById("view");
document.getElementById("theme").append(whence.themeButton());

const PAUSE = 400; // milliseconds without a key after which what was typed is explained
const state = {
  model: "",
  text: "",
  pair: "",
  image: null,
  sound: null,
  methods: [],
  target: "",
  against: "",
  tab: "explain",
  live: true,
  clicked: false, // whether the target was chosen by a click on a class: it then holds for this input alone
};
let info = null;
let form = null;
let explained = null; // the explain view

const kind = () => info.models.find((m) => m.name === state.model).kind;

/** The input as the server takes it, or what is missing. */
async function input() {
  const given = { model: state.model };
  for (const name of READS[kind()]) {
    if (!state[name]?.trim()) throw MISSING[name];
    given[name] = name === "text" || name === "pair" ? state[name] : await content(state[name]);
  }
  return given;
}

function explain(options) {
  later.cancel();
  if (state.tab !== "explain") {
    share.write(state);
    return show();
  }
  return kind() === "pair" ? compare() : explained.explain(options);
}

async function compare() {
  try {
    return await pairs(view, state, await input());
  } catch (error) {
    return problem(error);
  }
}

const later = debounced(PAUSE, () => kind() !== "pair" && explained.isLive() && explained.explain({ live: true }));

/** Something was typed. */
function typed() {
  explained.edited();
  later();
}

/** Another input was taken: what was clicked for the one before does not hold for it. */
function taken() {
  explained.edited();
  fitTabs();
  return explain();
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
  document.body.dataset.tab = name;
  fitTabs();
  form.draw();
  document.getElementById("main").classList.toggle("alone", name === "runs");
  share.write(state);
  show();
}

/** Only some models write. */
function fitTabs() {
  const { writes } = info.models.find((m) => m.name === state.model);
  document.getElementById("tab-write").hidden = !writes;
  if (!writes && state.tab === "write") choose("explain");
}

async function show() {
  quiet();
  for (const work of ["explain", "attention", "runs", "row", "summary", "write", "remove"]) cancel(work);
  if (state.tab === "runs") return runs(view, info, state);
  if (state.tab === "explain") return kind() === "pair" ? compare() : explained.show();
  try {
    const { pair, ...given } = await input(); // of two texts, the first is looked at
    return await (state.tab === "write" ? writing(view, info, state, given) : attention(view, given));
  } catch (error) {
    return stopped(error) ? quiet() : problem(error, show);
  }
}

for (const [n, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const shown = tabs.filter((other) => !other.hidden);
    const at = shown.indexOf(tabs[n]);
    if (step) choose(shown[(at + step + shown.length) % shown.length].id.slice(4), true);
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
    return taken();
  } catch (error) {
    return problem(error);
  }
}

// -- start -------------------------------------------------------------------------------------------------------

/** Take over what an address stands for. */
function adopt(wanted) {
  const model = info.models.find((m) => m.name === wanted?.model) ?? info.models[0];
  Object.assign(
    state,
    { model: model.name, methods: [...info.default_methods], target: "", against: "", clicked: false },
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
    if (reads.includes(name) && !wanted?.cut) state[name] ??= first[name] ?? null;
  }
  if (reads.includes("text") && !state.text && !wanted?.cut && (!wanted || reads.length > 1)) state.text = first.text ?? "";
  if (reads.includes("pair") && !state.pair && !wanted?.cut) state.pair = first.pair ?? "";
}

async function start() {
  try {
    info = await get("info", "/api/info");
  } catch (error) {
    return problem(error, start);
  }
  adopt(share.read());
  const act = { explain, typed, taken, file: opened, play: (seconds) => explained.play(seconds) };
  explained = explaining({ view, info, state, input, form: () => form });
  form = composer(document.getElementById("composer"), info, state, act);
  listen(opened);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // what stands behind the # is the page's state
    document.getElementById("results").focus();
  });
  addEventListener("hashchange", () => {
    explained.forget();
    adopt(share.read());
    form.draw();
    choose(state.tab);
  });
  return choose(["explain", "attention", "write", "runs"].includes(state.tab) ? state.tab : "explain");
}

start();
