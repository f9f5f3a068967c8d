// What is asked, in the fragment of the address: it is never sent to a server, so it stays out of logs.

import { labelsOf, SIDES } from "/static/kinds.js";

// a token in the address has become a cookie: nobody should share it with the page
if (location.search) history.replaceState(null, "", location.pathname + location.hash);

export const GENERATE = 12; // tokens that are written where nobody says how many
const LONGEST = 8000; // characters; longer addresses get cut on their way through mail and chat

/** The state that an address stands for; nothing where it has no fragment. */
export function read() {
  const values = new URLSearchParams(location.hash.slice(1));
  if (!values.has("m")) return null;
  return {
    model: values.get("m"),
    text: values.get("x") ?? "",
    pair: values.get("y") ?? "",
    cut: values.has("cut"), // the input did not fit: nobody else's may stand in its place
    image: values.get("i"),
    pair_image: values.get("j"),
    sides: values.get("p")?.split(",") ?? null, // of a pair: which of the two are images
    labels: values.get("l")?.split("\n") ?? [],
    choosing: values.has("l"),
    measure: values.get("c") ?? "",
    generate: Number(values.get("n")) || GENERATE,
    documents: values.get("d") ?? "",
    chat: values.get("chat") !== "0",
    system: values.get("sys") ?? "",
    sound: values.get("s"),
    methods: (values.get("k") ?? "").split(",").filter(Boolean),
    target: values.get("t") ?? "",
    against: values.get("v") ?? "",
    tab: values.get("tab") ?? "explain",
    row: values.get("row"),
  };
}

/** The address of a state, and whether all of it fitted. */
export function address(state) {
  const values = new URLSearchParams({ m: state.model });
  // a side of a pair that is a text now may have been an image before, and the other way round
  const compared = state.sides && !state.choosing;
  const unused = (name) => (state.choosing ? name !== "image" : compared && !SIDES.some((names, n) => names[state.sides[n]] === name));
  for (const [key, name] of Object.entries({ x: "text", y: "pair", i: "image", j: "pair_image" })) {
    if (state[name] && !unused(name)) values.set(key, state[name]);
  }
  if (compared) values.set("p", state.sides.join(","));
  if (state.choosing || (!compared && state.labels.length)) values.set("l", state.labels.join("\n"));
  if (state.measure && !state.choosing) values.set("c", state.measure);
  if (state.sound) values.set("s", state.sound);
  values.set("k", state.methods.join(","));
  if (state.target) values.set("t", state.target);
  if (state.against) values.set("v", state.against);
  if (state.tab !== "explain") values.set("tab", state.tab);
  if (state.tab === "write") values.set("n", state.generate);
  if (state.tab === "write" && state.documents) values.set("d", state.documents);
  if (state.tab === "write" && !state.chat) values.set("chat", "0");
  if (state.tab === "write" && state.system) values.set("sys", state.system);
  if (state.tab === "runs" && state.row) values.set("row", state.row);
  const fits = values.toString().length <= LONGEST;
  if (!fits) {
    for (const long of ["x", "y", "i", "j", "s", "d", "sys"]) values.delete(long);
    values.set("cut", "1");
    if (values.has("l") && values.toString().length > LONGEST) values.set("l", "");
  }
  return { address: `${location.origin}${location.pathname}#${values}`, fits };
}

/** What is asked, but for how it is looked at: two states with the same have the same answer. */
export function question(state) {
  const { model, text, pair, image, pair_image, sides, sound, measure, methods, target, against, choosing } = state;
  return JSON.stringify([model, text, pair, image, pair_image, sides, sound, measure, methods, target, against, choosing, labelsOf(state)]);
}

/** Put the state into the address of the page. */
export function write(state) {
  history.replaceState(null, "", address(state).address);
}
