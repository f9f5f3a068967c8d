// Which method to believe: a small curve per method, and how much the methods agree.
const whence = globalThis.whence;
const { el, signed } = whence;
const SVG = "http://www.w3.org/2000/svg";
const [WIDE, HIGH] = [64, 20];
const CHANCE = 0.05; // of the way that the score goes: a smaller gap between the curves says nothing

function shape(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

/** The score as features go: those that the method names first, and those last. */
function curves({ most, least }) {
  const all = [...most, ...least].filter(whence.known);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const line = (values, kind) =>
    shape("polyline", {
      class: kind,
      points: values
        .map((v, n) => `${((WIDE * n) / (values.length - 1)).toFixed(1)},${(1 + (HIGH - 2) * (1 - ((v ?? low) - low) / (high - low || 1))).toFixed(1)}`)
        .join(" "),
    });
  const box = shape("svg", { class: "curve", viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" });
  box.append(line(least, "last"), line(most, "first"));
  return box;
}

const GLOSS =
  "How faithful this explanation is to the model, on this input. Words are masked: first those that the method says speak " +
  "for the target (orange line), and the other way round (grey line). The number is the mean gap between the two, in " +
  "points of the score: higher is better, 0 for scores that know nothing, below 0 misleads.";

/** What the curves and numbers are, for those who can't point at them. */
export const gloss = () =>
  el("p", {
    class: "w-quiet gloss",
    text:
      "Which to believe, on this input: the curves are the score as the parts are taken away one after the other, first " +
      "those that the method names (orange), or last (grey). The number is the mean gap between them, in points: the " +
      "larger, the more faithful; below 0 it misleads.",
  });

/** The chip of a method; `faith` is what the server said of it, or nothing yet. */
export function chip(method, faith, best) {
  if (!faith) return el("span", { class: "faith waiting", data: { faith: method }, title: GLOSS, text: "checking …" });
  const all = [...faith.most, ...faith.least].filter(whence.known);
  const share = faith.area / (Math.max(...all) - Math.min(...all) || 1);
  const name = share < -CHANCE ? "misleads" : share < CHANCE ? "like chance" : best ? "most faithful" : "faithful";
  const kind = { misleads: "faith poor", "most faithful": "faith best" }[name] ?? "faith";
  return el(
    "span",
    { class: kind, data: { faith: method }, title: GLOSS },
    curves(faith),
    el("span", { text: `${name} ${signed(faith.area)}` }),
  );
}

/** Which two methods say the same, as a table of rank correlations. */
export function agreement({ methods, correlations }, known) {
  const title = (name) => whence.title(name, known);
  const head = el("tr", {}, el("td"), methods.map((name) => el("th", { scope: "col", title: title(name) }, el("code", { text: name }))));
  const rows = methods.map((name, i) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, whence.named(name, known)),
      methods.map((other, j) => {
        const value = correlations[i][j];
        const said = value === null ? "–" : value.toFixed(2).replace("-", "−");
        const chip = el("span", { class: `w-chip ${i === j ? "w-z" : whence.shade(value, 1)}`, text: i === j ? "" : said });
        return el("td", { class: "w-right" }, chip);
      }),
    ),
  );
  return el(
    "section",
    { class: "w-card", id: "agreement" },
    el("h3", { text: "Do the methods agree?" }),
    el("div", { class: "w-scroll", tabindex: 0, role: "region", "aria-label": "Agreement of methods" },
      el("table", { class: "agree", "aria-label": "Agreement of methods" }, el("thead", {}, head), el("tbody", {}, rows))),
    el("p", {
      class: "w-quiet w-gloss",
      text: "Rank correlation of their scores (Spearman's ρ): 1 the same order of words, 0 unrelated, −1 the opposite.",
    }),
  );
}
