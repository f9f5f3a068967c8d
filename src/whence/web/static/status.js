// The line above the results: what is under way, or what went wrong and what to do.
const { el, say } = globalThis.whence;
const place = document.getElementById("status");
const view = document.getElementById("view");

/** Say that something is under way; `stop` ends it. */
export function busy(what, stop) {
  view.setAttribute("aria-busy", "true");
  const button = el("button", {
    type: "button",
    class: "w-button",
    text: "Cancel",
    on: { click: () => (stop(), quiet()) },
  });
  place.replaceChildren(el("div", { class: "wait" }, el("span", { text: `${what} …` }), button));
}

/** Say that what is shown belongs to another question, while somebody types. */
export function note(text) {
  view.classList.add("stale");
  if (!place.firstChild) place.replaceChildren(el("p", { class: "w-quiet note", role: "status", text }));
}

export function quiet() {
  view.classList.remove("stale");
  view.removeAttribute("aria-busy");
  place.replaceChildren();
}

/** Go to an answer where it lies below the form. The first is an example that nobody asked for: the page stays at its top. */
export function arrived() {
  const narrow = matchMedia("(max-width: 60rem)").matches;
  if (narrow && document.body.dataset.asked) document.getElementById("results").scrollIntoView({ block: "start" });
  document.body.dataset.asked = "yes";
}

/** Show an error: its message, its hint, and a button that tries again. */
export function problem(error, again = null) {
  view.removeAttribute("aria-busy");
  view.classList.add("stale"); // what is still shown belongs to another question
  const worded =
    typeof error.hint === "string"
      ? error
      : { message: "Something went wrong on this page.", hint: String(error.message ?? error) };
  const wait = error.wait ? ` Try again in ${error.wait} s.` : "";
  const box = el(
    "div",
    { class: "w-card problem", role: "alert" },
    el("div", {}, el("p", { text: worded.message }), el("p", { text: `${worded.hint}${wait}` })),
    error.act ? el("button", { type: "button", class: "w-button", text: error.act[0], on: { click: error.act[1] } }) : null,
    again && (error.status === undefined || error.status === 0 || error.status >= 429)
      ? el("button", { type: "button", class: "w-button", text: "Try again", on: { click: again } })
      : null,
  );
  place.replaceChildren(box);
  say(`${worded.message} ${worded.hint}`);
}
