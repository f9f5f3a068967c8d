// Check it live: words are struck out, the model is asked again, and what it says stands beside what was foretold.
import { cancel, post, stopped } from "/static/api.js";
import { debounced } from "/static/timing.js";

const whence = globalThis.whence;
const { el, percent, signed } = whence;
const DRAWS = 10; // sets of words drawn at random
const TOP = 3;

/** What can be taken away: words, or patches of a picture and moments of a sound; special tokens stay. */
const unitsOf = (found) =>
  found.parts.map((part, n) => ({ n, text: part.text.trim() || "white space", gap: part.gap, special: part.special }));

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

/** A card for one answer. `request`: model and input; `target`: as it is asked for; `methods` say what methods are. */
export function check(request, methods) {
  const root = el("section", { class: "w-card check", id: "check", "aria-label": "Check it" });
  const words = el("div", { class: "strikes w-text", role: "group", "aria-label": "Words: choose which are struck out" });
  const said = el("div", { class: "said", "aria-live": "polite" });
  const tools = el("div", { class: "w-bar" });
  let found = null;
  let all = [];
  let target = null;
  let struck = new Set();
  let random = false;

  function draw() {
    const isText = found.sections.every((own) => !whence.isImage(own.exp));
    const units = unitsOf(found);
    words.hidden = !isText;
    words.replaceChildren(
      ...(isText ? units : []).flatMap((unit) => {
        const score = found.scores[unit.n];
        if (unit.special) return [];
        const on = struck.has(unit.n);
        return [
          unit.gap,
          el("button", {
            type: "button",
            class: `strike w-t ${on ? "gone" : whence.shade(score, found.scale)}`,
            "aria-pressed": String(on),
            "aria-label": `${unit.text}: ${on ? "struck out" : "strike out"}`,
            text: unit.text,
            data: { n: unit.n },
            on: { click: () => toggle(unit.n) },
          }),
        ];
      }),
    );
    const count = units.filter((unit) => !unit.special).length;
    const top = Math.min(isText ? TOP : Math.max(1, Math.round(count / 10)), count);
    const noun = isText ? "words" : whence.isSound(found.sections[0].exp) ? "moments" : "patches";
    const button = (text, act, disabled = false) => el("button", { type: "button", class: "w-button", text, disabled, on: { click: act } });
    tools.replaceChildren(
      button(`Remove the top ${top} ${noun}`, () => strongest(top)),
      button("Put all back", () => change(new Set()), !struck.size),
    );
  }

  function toggle(n) {
    const next = new Set(struck);
    next.has(n) ? next.delete(n) : next.add(n);
    random = false;
    change(next, n);
  }

  /** Take away what speaks most for the target, and as many at random. */
  function strongest(count) {
    const order = Array.from(found.scores.keys())
      .filter((n) => !found.parts[n].special)
      .sort((a, b) => (found.scores[b] ?? 0) - (found.scores[a] ?? 0));
    random = true;
    change(new Set(order.slice(0, count)));
  }

  function change(next, focus = null) {
    struck = next;
    if (!struck.size) random = false;
    draw();
    if (focus !== null) words.querySelector(`[data-n="${focus}"]`)?.focus();
    cancel("remove");
    if (!struck.size) return said.replaceChildren(hint());
    said.classList.add("stale");
    return ask();
  }

  const hint = () =>
    el("p", { class: "w-quiet", text: "Strike words out, and the model is asked again: does what you see here hold?" });

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
      const better = move < mean ? "more" : "no more";
      made.push(
        el(
          "p",
          { class: "chance" },
          `As many drawn at random, mean of ${drawn.length} draws: `,
          el("b", { text: signed(mean) }),
          ` points. What the explanation names matters ${better} than chance.`,
        ),
      );
    }
    said.replaceChildren(...made);
  }

  root.append(el("h3", { text: "Check it" }), words, tools, said);
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
      draw();
      if (struck.size) ask();
      else said.replaceChildren(hint());
    },
  };
}
