// Sounds: their drawing with seconds beneath it, and a line where they are being played.
"use strict";
(function (whence) {
  const { el } = whence;

  /** Round moments from 0 to `end`, in seconds: not more than `most`. */
  function ticks(end, most = 11) {
    const least = end / (most - 1);
    const unit = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((n) => n * unit).find((size) => size >= least * (1 - 1e-9));
    return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, n) => Number((n * step).toPrecision(6)));
  }

  /** `drawing`, an element, over an axis of seconds; `play(seconds)` marks a moment in it, and null none. */
  function timed(exp, drawing) {
    const [part] = exp.parts;
    const end = part.seconds * part.shape[part.shape.length - 1];
    const at = (seconds) => ({ left: `${(100 * seconds) / end}%` });
    const line = el("span", { class: "w-now", hidden: true });
    const marks = ticks(end).map((t) => el("span", { class: t > 0.97 * end ? "w-end" : "", style: at(t), text: `${t}` }));
    marks.at(-1).append(" s");
    const axis = el("div", { class: "w-axis", "aria-hidden": "true" }, marks);
    return {
      root: el("div", { class: "w-timed" }, el("div", { class: "w-wave" }, drawing, line), axis),
      play(seconds) {
        line.hidden = seconds === null || seconds > end;
        if (seconds !== null) line.style.setProperty("left", at(seconds).left);
      },
    };
  }

  Object.assign(whence, { ticks, timed });
})((globalThis.whence ??= {}));
