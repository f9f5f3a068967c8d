// A picture or a sound in pieces that can be taken away: clicked, dragged over, or with the arrow keys and space.
const whence = globalThis.whence;
const { el } = whence;
const MOST = { across: 60, down: 32 }; // pieces that are still large enough to be clicked on; more are put together
const FINGERS = { across: 24, down: 24 }; // the same on a phone

/**
 * The pieces of `own`, a section of features.js that is a picture: `change(units, gone)` when units (numbers among the
 * section's own) shall go, or be there again. Returns {root, mark(gone), colour(own), play(seconds)}.
 */
export function squares(own, change) {
  const sound = whence.isSound(own.exp);
  const most = matchMedia("(max-width: 46rem)").matches ? FINGERS : MOST;
  const step = { across: Math.ceil(own.columns / most.across), down: Math.ceil(own.rows / most.down) };
  const columns = Math.ceil(own.columns / step.across);
  const rows = Math.ceil(own.rows / step.down);
  const noun = sound ? "moment" : "square";
  let current = 0; // which one can be tabbed to
  let stroke = null; // while somebody drags: {goes, at}: whether what is touched goes, and which was touched last
  let touched = false; // fingers scroll, and tap

  /** Numbers of the units in a piece. */
  const units = Array.from({ length: rows * columns }, (_, n) => {
    const [top, left] = [Math.floor(n / columns) * step.down, (n % columns) * step.across];
    const inside = [];
    for (let row = top; row < Math.min(own.rows, top + step.down); row++)
      for (let column = left; column < Math.min(own.columns, left + step.across); column++) inside.push(row * own.columns + column);
    return inside;
  });

  function nameOf(n) {
    const [first, last] = [units[n][0], units[n].at(-1)].map((unit) => own.parts[unit].text);
    if (first === last) return first;
    if (!sound) return `${first} to ${last.replace("patch ", "")}`;
    return `${first.split("–")[0]}–${last.split("–")[1]}`;
  }

  const buttons = units.map((inside, n) =>
    el("button", { type: "button", class: "strike square", tabindex: n ? -1 : 0, "aria-pressed": "false", data: { n: own.from + inside[0], piece: n } }),
  );
  const grid = el("div", { class: "pieces", role: "group", "aria-label": `${sound ? "The sound" : "The image"}: choose which ${noun}s are taken away`, style: { "grid-template-columns": `repeat(${columns}, 1fr)` } }, buttons);
  const image = own.exp.image ? el("img", { src: own.exp.image, alt: "", draggable: "false" }) : null;
  const drawing = el("div", { class: image ? "pieced" : "pieced bare", style: { "--ratio": `${own.columns} / ${own.rows}` } }, image, grid);
  const timed = sound ? whence.timed(own.exp, drawing) : null;

  const pieceOf = (target) => (target.closest?.(".square") && grid.contains(target) ? Number(target.closest(".square").dataset.piece) : null);
  const isGone = (n) => buttons[n].getAttribute("aria-pressed") === "true";

  /** The pieces on the way from one to another: a quick mouse skips some. */
  function between(from, to) {
    const [a, b] = [from, to].map((n) => [Math.floor(n / columns), n % columns]);
    const count = Math.max(Math.abs(b[0] - a[0]), Math.abs(b[1] - a[1]), 1);
    return Array.from({ length: count }, (_, k) => {
      const [row, column] = [0, 1].map((axis) => Math.round(a[axis] + ((b[axis] - a[axis]) * (k + 1)) / count));
      return row * columns + column;
    });
  }

  function focus(n) {
    buttons[current].tabIndex = -1;
    current = n;
    buttons[n].tabIndex = 0;
  }

  grid.addEventListener("pointerdown", (event) => {
    const n = pieceOf(event.target);
    touched = event.pointerType === "touch";
    if (n === null || touched || event.button) return;
    stroke = { goes: !isGone(n), at: n };
    change(units[n], stroke.goes);
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (stroke = null), { once: true });
  });
  grid.addEventListener("pointerover", (event) => {
    const n = stroke === null ? null : pieceOf(event.target);
    if (n === null) return;
    change(between(stroke.at, n).filter((m) => isGone(m) !== stroke.goes).flatMap((m) => units[m]), stroke.goes);
    stroke.at = n;
  });
  grid.addEventListener("click", (event) => {
    const n = pieceOf(event.target);
    if (n !== null && (event.detail === 0 || touched)) change(units[n], !isGone(n)); // a key, or a finger
  });
  grid.addEventListener("focusin", (event) => pieceOf(event.target) !== null && focus(pieceOf(event.target)));
  grid.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -current, End: units.length - 1 - current }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    focus(Math.max(0, Math.min(units.length - 1, current + by)));
    buttons[current].focus();
  });

  return {
    root: timed?.root ?? drawing,
    /** Show which units are gone: a set of numbers of the whole input. */
    mark(gone) {
      buttons.forEach((button, n) => {
        const count = units[n].filter((unit) => gone.has(own.from + unit)).length;
        const state = count === 0 ? "false" : count === units[n].length ? "true" : "mixed";
        if (button.getAttribute("aria-label") && button.getAttribute("aria-pressed") === state) return;
        button.setAttribute("aria-pressed", state);
        button.setAttribute("aria-label", `${nameOf(n)}: ${state === "true" ? "taken away" : "take away"}`);
        button.classList.toggle("gone", count > 0);
      });
    },
    /** Another explanation of the same input. */
    colour(next) {
      buttons.forEach((button, n) => {
        const score = units[n].reduce((sum, unit) => sum + (next.scores[unit] ?? 0), 0) / units[n].length;
        const colour = score < 0 ? whence.AGAINST : whence.FOR;
        button.style.setProperty("--heat", `rgb(${colour.join(" ")} / ${(0.75 * Math.min(1, Math.abs(score) / next.scale)).toFixed(3)})`);
      });
    },
    play: (seconds) => timed?.play(seconds),
  };
}
