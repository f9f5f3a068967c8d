// Heat maps over images: the colour's strength is its opacity, so zero shows the image (or the page) beneath.
"use strict";
(function (whence) {
  const { el } = whence;
  const SIZE = 336; // pixels of the drawing; the layout shows it at the width there is
  const WIDE = 1200; // of a sound, which takes all of that

  /** The scores as a small picture, a pixel per patch. */
  function heat(found, scale) {
    const small = el("canvas", { width: found.columns, height: found.rows });
    const context = small.getContext("2d");
    const pixels = context.createImageData(found.columns, found.rows);
    found.scores.forEach((score, i) => {
      const [red, green, blue] = (score ?? 0) < 0 ? whence.AGAINST : whence.FOR;
      pixels.data.set([red, green, blue, 255 * Math.min(1, Math.abs(score ?? 0) / scale)], 4 * i);
    });
    context.putImageData(pixels, 0, 0);
    return small;
  }

  /** A canvas with image and heat map. `opacity` 0 is the image alone, 1 the heat map alone, ½ both in full. */
  function overlay(found, { label, scale, opacity, smooth, hear = {} }) {
    const image = found.exp.image ? new Image() : null;
    const width = whence.isSound(found.exp) ? WIDE : SIZE;
    const canvas = el("canvas", {
      class: "w-heat",
      width,
      height: SIZE,
      tabindex: 0,
      role: "img",
      "aria-label": label,
    });
    const state = { scale, opacity, smooth, lit: null };
    let current = 0;

    function draw() {
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, canvas.width, canvas.height);
      if (image?.complete && image.naturalWidth) {
        context.imageSmoothingEnabled = image.naturalWidth >= width;
        context.globalAlpha = Math.min(1, 2 - 2 * state.opacity);
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
      }
      context.globalAlpha = image ? Math.min(1, 2 * state.opacity) : 1;
      context.imageSmoothingEnabled = state.smooth;
      context.imageSmoothingQuality = "high";
      context.drawImage(heat(found, state.scale), 0, 0, canvas.width, canvas.height);
      context.globalAlpha = 1;
      if (state.lit !== null) {
        const [w, h] = [canvas.width / found.columns, canvas.height / found.rows];
        const [x, y] = [(state.lit % found.columns) * w, Math.floor(state.lit / found.columns) * h];
        context.lineWidth = 3;
        context.strokeStyle = "#fff";
        context.strokeRect(x + 1, y + 1, w - 2, h - 2);
        context.lineWidth = 1;
        context.strokeStyle = "#000";
        context.strokeRect(x + 2.5, y + 2.5, w - 5, h - 5);
      }
    }

    if (image) {
      image.addEventListener("load", () => {
        canvas.height = Math.round((width * image.naturalHeight) / image.naturalWidth);
        draw();
      });
      image.src = found.exp.image;
    } else canvas.height = Math.round((width * found.rows) / found.columns);

    /** The rectangle of a patch in the viewport. */
    function box(i) {
      const own = canvas.getBoundingClientRect();
      const [w, h] = [own.width / found.columns, own.height / found.rows];
      return new DOMRect(own.left + (i % found.columns) * w, own.top + Math.floor(i / found.columns) * h, w, h);
    }
    const report = (i) => {
      current = i;
      hear.over?.(i, { getBoundingClientRect: () => box(i) });
    };
    canvas.addEventListener("pointermove", (event) => {
      const own = canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - own.left) / own.width) * found.columns);
      const row = Math.floor(((event.clientY - own.top) / own.height) * found.rows);
      if (column >= 0 && row >= 0 && column < found.columns && row < found.rows) report(row * found.columns + column);
    });
    canvas.addEventListener("click", () => hear.pick?.(current));
    canvas.addEventListener("pointerleave", () => hear.out?.());
    canvas.addEventListener("blur", () => hear.out?.());
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && report(current));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: found.columns, ArrowUp: -found.columns }[event.key];
      if (event.key === "Enter") hear.pick?.(current);
      if (!step) return;
      event.preventDefault();
      report(Math.max(0, Math.min(found.scores.length - 1, current + step)));
      whence.say(whence.spoken(found, current));
    });
    draw();

    return {
      root: canvas,
      change(next) {
        Object.assign(state, next);
        draw();
      },
      light(i) {
        if (state.lit === i) return;
        state.lit = i;
        current = i ?? current; // the arrow keys go on from here
        draw();
      },
    };
  }

  Object.assign(whence, { overlay });
})((globalThis.whence ??= {}));
