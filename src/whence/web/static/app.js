// The page: what is asked, what came back, and the views of it.
import { cancel, get, stopped } from "/static/api.js";
import { attention } from "/static/attention.js";
import { composer } from "/static/composer.js";
import { listen } from "/static/dropping.js";
import { explaining } from "/static/explaining.js";
import { content, take } from "/static/files.js";
import { labelsOf, MISSING, posed, readsOf, sees, SIDES, sidesOf } from "/static/kinds.js";
import { pairing } from "/static/pairs.js";
import { runs } from "/static/runs.js";
import * as share from "/static/share.js";
import { note, problem, quiet } from "/static/status.js";
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
  pair_image: null,
  sides: null, // what the sides of a pair are, where they may be images
  labels: [], // lines: texts to choose from
  choosing: false, // whether a model that also compares two inputs is to choose
  generate: share.GENERATE, // tokens to write
  documents: "", // that an answer is written from
  chat: true, // whether models that know conversations are asked as in one
  system: "", // what they are told to be
  looked: 0, // the side of a pair whose attention is looked at
  measure: "", // how the two are compared; nothing for the model's own
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
let paired = null; // the same where two inputs are compared
let writer = null; // the write view

const model = () => posed(info.models.find((m) => m.name === state.model), state);
const kind = () => model().kind;
const asking = () => (state.tab === "write" ? writer : kind() === "pair" ? paired : explained);

let turn = 0; // of those that ask: a file takes a moment to be read, and only the last one goes on

/** The input as the server takes it, or what is missing. */
async function input() {
  const mine = ++turn;
  const given = { model: state.model };
  for (const name of readsOf(model(), state.sides)) given[name] = await part(name);
  return mine === turn ? given : new Promise(() => {});
}

async function part(name) {
  if (name === "labels") {
    const labels = labelsOf(state);
    if (!labels.length) throw MISSING.labels;
    return labels;
  }
  if (!state[name]?.trim()) throw MISSING[name];
  return name === "text" || name === "pair" ? state[name] : content(state[name]);
}

/** What attention is looked at of: the input, one side of a pair, or what labels are chosen for. */
async function single() {
  if (kind() !== "pair" && !model().chooses) return input();
  const mine = ++turn;
  const sort = model().chooses ? kind() : (state.sides?.[state.looked] ?? "text");
  const name = model().chooses ? sort : SIDES[state.looked][sort];
  const given = { model: state.model, [sort]: await part(name) };
  return mine === turn ? given : new Promise(() => {});
}

function explain(options) {
  later.cancel();
  if (state.tab === "write") return writer.write();
  if (state.tab !== "explain") {
    share.write(state);
    return show();
  }
  return kind() === "pair" ? paired.compare() : explained.explain(options);
}

const later = debounced(PAUSE, () => kind() !== "pair" && explained.isLive() && explained.explain({ live: true }));

/** Something was typed. */
function typed() {
  changed();
  later();
}

/** What is shown is of another input, and what was clicked for that one does not hold for this one. */
function changed() {
  if (state.clicked) {
    Object.assign(state, { target: "", against: "", clicked: false });
    form.targets();
  }
  if (state.tab === "attention") {
    if (document.getElementById("heads")) note("The input has changed: this is the attention of the one before.");
  } else asking().edited();
}

/** Another input was taken. */
function taken() {
  changed();
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

/** Only some models write; those that read each label by itself have no attention over all. */
function fitTabs() {
  const { writes, chooses, either } = model();
  const none = { write: !writes, attention: Boolean(chooses) && !either };
  for (const [name, gone] of Object.entries(none)) document.getElementById(`tab-${name}`).hidden = gone;
  if (none[state.tab]) choose("explain");
}

async function show() {
  turn += 1;
  quiet();
  for (const work of ["explain", "attention", "runs", "row", "summary", "write", "remove"]) cancel(work);
  if (state.tab === "runs") return runs(view, info, state);
  if (state.tab === "explain" || state.tab === "write") return asking().show();
  try {
    const other = kind() === "pair" ? { at: state.looked, look: (n) => ((state.looked = n), show()) } : null;
    return await attention(view, await single(), other);
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
async function opened(dropped, side = null) {
  try {
    const { model: able, given } = await take(dropped, info, state, side);
    if (able !== state.model) return form.use(able, given);
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
  const served = info.models.find((m) => m.name === wanted?.model) ?? info.models[0];
  Object.assign(
    state,
    { methods: [...info.default_methods], target: "", against: "", clicked: false, sides: null, measure: "", documents: "", labels: [], choosing: false, chat: true, system: "" },
    wanted ?? {},
    { model: served.name },
  );
  state.choosing &&= Boolean(served.chooses) && served.kind === "pair";
  const own = posed(served, state);
  state.methods = state.methods
    .filter((name) => own.methods.includes(name))
    .slice(0, info.limits.methods);
  if (!state.methods.length) state.methods = info.default_methods.filter((name) => own.methods.includes(name));
  if (!own.measures.includes(state.measure)) state.measure = "";
  state.generate = Math.max(1, Math.min(info.limits.generate, Math.round(state.generate)));
  const [first, sorts] = [own.examples[0] ?? {}, ["text", "image"]];
  const said = state.sides?.length === 2 && state.sides.every((sort) => sorts.includes(sort));
  state.sides = sees(own) && said ? state.sides : sidesOf(own, wanted?.text ? {} : first);
  // a file in an address may only be data or an example of this server
  const reads = readsOf(own, state.sides);
  for (const [name, type] of [["image", "data:image/"], ["pair_image", "data:image/"], ["sound", "data:audio/"]]) {
    const known = [...served.examples, ...(served.chooses?.examples ?? [])].some((example) => example[name] === state[name]);
    if (state[name] && !state[name].startsWith(type) && !known) state[name] = null;
    if (reads.includes(name) && !wanted?.cut) state[name] ??= first[name] ?? null;
  }
  if (reads.includes("text") && !state.text && !wanted?.cut) state.text = first.text ?? "";
  if (reads.includes("pair") && !state.pair && !wanted?.cut) state.pair = first.pair ?? "";
  if (reads.includes("labels") && !state.labels.length) state.labels = first.labels ?? [];
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
  paired = pairing({ view, info, state, input });
  writer = writing({ view, info, state, input });
  form = composer(document.getElementById("composer"), info, state, act);
  listen(opened, () => sees(model()) && state.tab !== "runs");
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // what stands behind the # is the page's state
    document.getElementById("results").focus();
  });
  addEventListener("hashchange", () => {
    explained.forget();
    paired.forget();
    writer.forget();
    adopt(share.read());
    form.draw();
    choose(state.tab);
  });
  return choose(["explain", "attention", "write", "runs"].includes(state.tab) ? state.tab : "explain");
}

start();
