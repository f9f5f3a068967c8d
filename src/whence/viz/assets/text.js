// Coloured text: one span per token or word. Made for 10,000 of them: classes, one listener per view, one tab stop.
"use strict";
(function (whence) {
  const { el } = whence;
  const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  const escaped = (text) => text.replace(/[&<>"]/g, (c) => ESCAPES[c]);

  /** The direction of the first letter, special tokens aside. dir="auto" would look it up again for each token. */
  function direction(parts) {
    for (const { text, special } of parts) {
      const letter = special ? null : /\p{L}/u.exec(text);
      if (letter)
        return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]|[\u{10800}-\u{10fff}]|[\u{1e800}-\u{1efff}]/u.test(letter[0])
          ? "rtl"
          : "ltr";
    }
    return "ltr";
  }

  /** A view of `found` (see features.js). `hear` gets {over, out, pick}: functions of a feature's number. */
  function text(found, { label, scale, hear = {} }) {
    const { parts, scores } = found;
    const root = el("div", { class: "w-text", role: "listbox", "aria-label": label, dir: direction(parts) });
    // A string is parsed several times faster than elements are made one by one. Every text in it is escaped; special
    // tokens are <bdi> so that a [CLS] is no part of an Arabic sentence.
    const html = new Array(parts.length);
    for (let i = 0; i < parts.length; i++) {
      const { gap, text, special } = parts[i];
      const name = special ? "bdi" : "span";
      const kind = `w-t ${special ? "w-s " : ""}${whence.shade(scores[i], scale)}`;
      const blank = text.trim() ? "" : ' aria-label="white space"';
      html[i] =
        `${escaped(gap)}<${name} role="option" aria-selected="false"${blank} class="${kind}">${escaped(text)}</${name}>`;
    }
    root.innerHTML = html.join("");
    const spans = Array.from(root.children);
    let current = 0;
    let lit = null;
    if (spans.length) spans[0].tabIndex = 0;

    const number = (target) => {
      const span = target.closest?.(".w-t");
      return span && span.parentNode === root ? spans.indexOf(span) : -1;
    };
    const move = (to) => {
      to = Math.max(0, Math.min(spans.length - 1, to));
      spans[current].tabIndex = -1;
      current = to;
      spans[current].tabIndex = 0;
      spans[current].focus();
    };

    root.addEventListener("pointerover", (event) => {
      const i = number(event.target);
      if (i >= 0) hear.over?.(i, spans[i]);
    });
    root.addEventListener("pointerleave", () => hear.out?.());
    root.addEventListener("focusin", (event) => {
      const i = number(event.target);
      if (i < 0) return;
      spans[current].tabIndex = -1;
      current = i;
      spans[i].tabIndex = 0;
      spans[i].setAttribute("aria-label", spoken(found, i)); // when it is needed, not 10,000 times ahead
      hear.over?.(i, spans[i]);
    });
    root.addEventListener("focusout", () => hear.out?.());
    root.addEventListener("click", (event) => {
      const i = number(event.target);
      if (i < 0) return;
      move(i);
      hear.pick?.(i);
    });
    root.addEventListener("keydown", (event) => {
      const forward = getComputedStyle(root).direction === "rtl" ? -1 : 1;
      const step = {
        ArrowRight: forward,
        ArrowLeft: -forward,
        ArrowDown: 10,
        ArrowUp: -10,
        PageDown: 100,
        PageUp: -100,
      }[event.key];
      if (step) move(current + step);
      else if (event.key === "Home") move(0);
      else if (event.key === "End") move(spans.length - 1);
      else if (event.key === "Enter" || event.key === " ") hear.pick?.(current);
      else return;
      event.preventDefault();
    });

    return {
      root,
      /** Colour again, for other scores of the same features. */
      colour(next, nextScale) {
        for (let i = 0; i < spans.length; i++) {
          const wanted = `w-t ${parts[i].special ? "w-s " : ""}${whence.shade(next[i], nextScale)}`;
          if (spans[i].className !== wanted) spans[i].className = wanted;
        }
      },
      /** Ring one feature, in this view and in those beside it. */
      light(i) {
        lit?.classList.remove("w-lit");
        lit = i === null ? null : spans[i];
        lit?.classList.add("w-lit");
      },
    };
  }

  /** A feature and its numbers as one sentence. */
  function spoken(found, i) {
    const { parts, scores, rank, total, count } = found;
    const share = whence.percent(Math.abs(scores[i] ?? 0) / total);
    return `${parts[i].text.trim()}: ${whence.signed(scores[i])}, place ${rank[i]} of ${count}, ${share} of all`;
  }

  Object.assign(whence, { escaped, spoken, text });
})((globalThis.whence ??= {}));
