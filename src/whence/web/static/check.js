// Check it live: words, squares of a picture or moments of a sound are struck out, the model is asked again, and what it
// says stands beside what was foretold.
import { cancel, post, stopped } from "/static/api.js";
import { squares } from "/static/squares.js";
import { debounced } from "/static/timing.js";

const whence = globalThis.whence;
const { el, percent, signed } = whence;
const DRAWS = 10; // sets of words drawn at random
const TOP = 3;

/** What can be taken away: words, or patches of a picture and moments of a sound; special tokens stay. */
const unitsOf = (found) =>
  found.parts.map((part, n) => ({ n, text: part.text.trim() || "white space", gap: part.gap, special: part.special }));

/** Units whose line breaks stand before what is shown: that of a special token goes to the one after it. */
function lined(units) {
  let held = "";
  return units.map((unit) => {
    const breaks = unit.gap.includes("\n");
    const gap = breaks ? unit.gap : held || unit.gap;
    held = unit.special && (breaks || held) ? "\n" : "";
    return { ...unit, gap };
  });
}

/** Numbers of the features of units, as the server counts them. */
function featuresOf(found, chosen) {
  const made = [];
  for (const own of found.sections) {
    own.parts.forEach((part, i) => {
      if (chosen.has(own.from + i)) made.push(...part.tokens.map((token) => token + own.first));
    });
  }
  return made;
}

const NOUNS = { text: ["words", "Strike words out"], image: ["squares", "Click squares, or drag over them"], sound: ["moments", "Click moments, or drag over them"] };

/** What a section of the input is. */
const sortOf = (own) => (!whence.isImage(own.exp) ? "text" : whence.isSound(own.exp) ? "sound" : "image");

/** A card for one answer. `request`: model and input; `target`: as it is asked for; `methods` say what methods are. */
export function check(request, methods) {
  const root = el("section", { class: "w-card check", id: "check", "aria-label": "Check it" });
  const parts = el("div", { class: "parts" });
  const said = el("div", { class: "said", "aria-live": "polite" });
  const tools = el("div", { class: "w-bar" });
  let found = null;
  let all = [];
  let target = null;
  let struck = new Set();
  let random = false;
  let views = []; // what shows each section
  let now = null; // where a sound is being played

  /** A text, word by word. */
  function words(own) {
    const box = el("div", { class: "strikes w-text", dir: "auto", role: "group", "aria-label": "Words: choose which are struck out" });
    const units = lined(unitsOf(own)).filter((unit) => !unit.special);
    const buttons = new Map(
      units.map(({ n, text }) => [n + own.from, el("button", { type: "button", text, data: { n: n + own.from }, on: { click: () => toggle(n + own.from) } })]),
    );
    box.replaceChildren(...units.flatMap((unit, i) => [i ? unit.gap : "", buttons.get(unit.n + own.from)]));
    let shown = own;
    return {
      root: box,
      mark(gone) {
        for (const [n, button] of buttons) {
          const on = gone.has(n);
          button.className = `strike w-t ${on ? "gone" : whence.shade(shown.scores[n - own.from], shown.scale)}`;
          button.setAttribute("aria-pressed", String(on));
          button.setAttribute("aria-label", `${button.textContent}: ${on ? "struck out" : "strike out"}`);
        }
      },
      colour: (next) => (shown = next),
    };
  }

  /** Units of one section go, or come back. */
  function struckIn(own) {
    return (units, gone) => {
      if (!units.length) return;
      const next = new Set(struck);
      for (const unit of units) gone ? next.add(own.from + unit) : next.delete(own.from + unit);
      random = false;
      change(next);
    };
  }

  /** What is of the same input is coloured again, and stays where it is: somebody may be dragging over it. */
  const shapeOf = (of) => JSON.stringify(of.sections.map((own) => [sortOf(own), own.exp.image?.length ?? 0, own.columns, own.rows, own.parts.map((part) => part.text)]));
  let shape = null;

  function lay() {
    const next = shapeOf(found);
    if (next !== shape) {
      shape = next;
      views = found.sections.map((own) => (sortOf(own) === "text" ? words(own) : squares(own, struckIn(own))));
      parts.className = `parts ${found.sections.map(sortOf).join(" ")}`;
      parts.replaceChildren(...views.map((part) => part.root));
      play(now);
    }
    views.forEach((part, n) => part.colour(found.sections[n]));
  }

  function play(seconds) {
    now = seconds;
    for (const part of views) part.play?.(seconds);
  }

  function draw() {
    for (const part of views) part.mark(struck);
    const sorts = [...new Set(found.sections.map(sortOf))];
    const count = unitsOf(found).filter((unit) => !unit.special).length;
    const isText = sorts.every((sort) => sort === "text");
    const top = Math.min(isText ? TOP : Math.max(1, Math.round(count / 10)), count);
    const noun = sorts.map((sort) => NOUNS[sort][0]).join(" or ");
    const button = (text, act, disabled = false) => el("button", { type: "button", class: "w-button", text, disabled, on: { click: act } });
    const held = [...tools.children].indexOf(document.activeElement);
    tools.replaceChildren(
      button(`Remove the top ${top} ${noun}`, () => strongest(top)),
      button("Put all back", () => change(new Set()), !struck.size),
    );
    if (held >= 0) (tools.children[held].disabled ? tools.firstChild : tools.children[held]).focus();
  }

  function toggle(n) {
    const next = new Set(struck);
    next.has(n) ? next.delete(n) : next.add(n);
    random = false;
    change(next);
  }

  /** Take away what speaks most for the target, and as many at random. */
  function strongest(count) {
    const order = Array.from(found.scores.keys())
      .filter((n) => !found.parts[n].special)
      .sort((a, b) => (found.scores[b] ?? 0) - (found.scores[a] ?? 0));
    random = true;
    change(new Set(order.slice(0, count)));
  }

  function change(next) {
    struck = next;
    if (!struck.size) random = false;
    draw();
    ask.cancel();
    cancel("remove");
    if (!struck.size) return said.replaceChildren(hint());
    said.classList.add("stale");
    return ask();
  }

  function hint() {
    const sorts = [...new Set(found.sections.map(sortOf))];
    const how = sorts.map((sort, n) => (n ? NOUNS[sort][1].toLowerCase() : NOUNS[sort][1])).join(" or ");
    const gone = sorts.includes("image") ? " Squares are painted over." : sorts.includes("sound") ? " Moments are made silent." : "";
    return el("p", { class: "w-quiet", text: `${how}, and the model is asked again: does what you see here hold?${gone}` });
  }

  const ask = debounced(150, async () => {
    try {
      const body = { ...request, target, removed: featuresOf(found, struck), draws: random ? DRAWS : 0 };
      show(await post("remove", "/api/remove", body));
    } catch (error) {
      if (stopped(error)) return;
      said.replaceChildren(el("p", { class: "fault", role: "alert", text: `${error.message} ${error.hint ?? ""}` }));
    } finally {
      said.classList.remove("stale");
    }
  });

  function show({ whole, without, random: drawn }) {
    const move = without.score - whole.score;
    const rows = all
      .filter((one) => one.exp.conservation && one.exp.class_specific !== false && one.parts.length === found.parts.length)
      .map((one) => [one.exp.method, -[...struck].reduce((sum, n) => sum + (one.scores[n] ?? 0), 0)]);
    const scale = whence.scaleOf([move, ...rows.map(([, amount]) => amount)]);
    const line = (name, amount, kind) => {
      const width = `${50 * Math.min(1, Math.abs(amount) / scale)}%`;
      const bar = el("span", { class: amount < 0 ? "w-against" : "w-for", style: { width } });
      return el(
        "tr",
        { class: kind },
        el("th", { scope: "row" }, name),
        el("td", { class: "bar", "aria-hidden": "true" }, el("span", { class: "w-middle" }, bar)),
        el("td", { class: "w-right", text: signed(amount) }),
      );
    };
    const probable = whole.probability !== null && without.probability !== null;
    const turned = without.label && without.label !== whole.label;
    const top = probable
      ? el(
          "p",
          { class: "moved" },
          el("b", { text: percent(whole.probability) }),
          " → ",
          el("b", { text: percent(without.probability) }),
          turned ? el("span", {}, ": the model now says ", el("bdi", { class: "w-strong", text: without.label })) : "",
        )
      : null;
    const body = [line("what happened", move, "observed"), ...rows.map(([name, amount]) => line(el("span", {}, "foretold by ", whence.title(name, methods)), amount, "foretold"))];
    const made = [
      ...(top ? [top] : []),
      el("table", { class: "foretold", "aria-label": "Observed and foretold change of the score" }, el("tbody", {}, body)),
      el("p", { class: "w-quiet", text: "Change of the explained score, in points. Methods without a unit foretell no amount." }),
    ];
    if (drawn.length) {
      const mean = drawn.reduce((sum, one) => sum + one.score - whole.score, 0) / drawn.length;
      const less = drawn.filter((one) => one.score > without.score).length; // the score fell less
      made.push(
        el(
          "p",
          { class: "chance" },
          `As many drawn at random, mean of ${drawn.length} draws: `,
          el("b", { text: signed(mean) }),
          ` points. What the explanation names took away more than ${less} of the ${drawn.length} draws did.`,
        ),
      );
    }
    said.replaceChildren(...made);
  }

  root.append(el("h3", { text: "Check it" }), el("div", { class: "checking" }, parts, el("div", {}, tools, said)));
  return {
    root,
    /** Look at another explanation: what is struck out stays, as far as it is the same input. */
    look(one, others, asked) {
      const same = found && found.parts.length === one.parts.length;
      if (!same) struck = new Set();
      [found, all, target] = [one, others, asked];
      let first = 0;
      for (const own of found.sections) {
        own.first = first;
        first += own.parts.reduce((most, part) => most + part.tokens.length, 0);
      }
      lay();
      draw();
      if (struck.size) ask();
      else said.replaceChildren(hint());
    },
    play,
  };
}
