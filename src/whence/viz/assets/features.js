// What is scored: tokens with the white space of their text, words, or patches of an image.
"use strict";
(function (whence) {
  /** A text that is cut by code points, as Python counts them; JavaScript counts UTF-16 units. */
  function cutter(text) {
    if (!/[\ud800-\udbff]/.test(text)) return (from, to) => text.slice(from, to);
    const points = Array.from(text);
    return (from, to) => points.slice(from, to).join("");
  }

  const visible = (token) => token.replaceAll("\t", "→").replaceAll("\n", "⏎\n");

  /** Tokens as {gap, text, special, tokens}: `gap` is the white space before, `tokens` the numbers of those it is of. */
  function tokens(exp) {
    const cut = exp.text === null || exp.text === undefined ? null : cutter(exp.text);
    const parts = [];
    let end = 0;
    let glued = true;
    exp.tokens.forEach((token, i) => {
      const [start, stop] = exp.offsets?.[i] ?? [0, 0];
      const side = exp.sides?.length && i > 0 && exp.sides[i] !== exp.sides[i - 1];
      let gap;
      if (cut && stop > start) {
        gap = start > end ? cut(end, start) : side || !glued ? " " : "";
        end = side ? stop : Math.max(end, stop);
        glued = true;
      } else {
        gap = i === 0 || token.startsWith(" ") ? "" : " ";
        glued = false;
      }
      parts.push({ gap: side ? "\n" : gap, text: visible(token), special: Boolean(exp.special?.[i]), tokens: [i] });
    });
    return parts;
  }

  /** Words as the same; their tokens are those of `exp.words`. */
  function words(exp) {
    const parts = tokens(exp);
    return exp.words.map((word) => ({
      gap: parts[word.tokens[0]].gap,
      text: visible(word.text),
      special: parts[word.tokens[0]].special,
      tokens: word.tokens,
    }));
  }

  const merged = (parts, scores) => parts.map((part) => part.tokens.reduce((sum, i) => sum + (scores[i] ?? 0), 0));

  const isImage = (exp) => Array.isArray(exp.scores[0]);

  /** {parts, scores, rank, total, scale}: everything a view needs of one explanation, as tokens or as words. */
  function features(exp, view = "tokens") {
    if (isImage(exp)) {
      const scores = exp.scores.flat();
      const columns = exp.scores[0].length;
      const parts = scores.map((_, i) => ({
        gap: "",
        text: `patch ${Math.floor(i / columns)},${i % columns}`,
        tokens: [i],
      }));
      return complete({ exp, parts, scores, columns, rows: exp.scores.length });
    }
    if (!exp.tokens.length) {
      const parts = exp.scores.map((_, i) => ({ gap: i ? " " : "", text: `feature ${i}`, tokens: [i] }));
      return complete({ exp, parts, scores: exp.scores });
    }
    const parts = view === "words" && exp.words ? words(exp) : tokens(exp);
    return complete({ exp, parts, scores: view === "words" && exp.words ? merged(parts, exp.scores) : exp.scores });
  }

  function complete(found) {
    found.rank = whence.ranks(found.scores);
    found.scale = whence.scaleOf(found.scores);
    found.total = found.scores.reduce((sum, s) => sum + Math.abs(s ?? 0), 0) || 1;
    return found;
  }

  /** Where a feature stands in the text, in words; nothing for special tokens and images. */
  function place(exp, part) {
    const first = exp.offsets?.[part.tokens[0]];
    const last = exp.offsets?.[part.tokens[part.tokens.length - 1]];
    return first && last[1] > first[0] ? `${first[0]}–${last[1]}` : "";
  }

  Object.assign(whence, { features, isImage, place });
})((globalThis.whence ??= {}));
