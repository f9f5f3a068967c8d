// What is scored: tokens with the white space of their text, words, patches of an image, moments of a sound.
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
        const word = exp.word_ids?.[i] ?? null; // of a text that is not there as a whole, as `typeset` has it
        gap = i === 0 || token.startsWith(" ") || (word !== null && word === exp.word_ids[i - 1]) ? "" : " ";
        glued = false;
      }
      parts.push({ gap: side ? "\n" : gap, text: visible(token), special: Boolean(exp.special?.[i]), tokens: [i] });
    });
    return marked(parts, cut ? cut(end) : "");
  }

  /** Marks that a tokenizer leaves out (vowels of Arabic, accents) stand with the letter that they are on, not behind it. */
  function marked(parts, rest) {
    const take = (part, from) => {
      const marks = part && !part.special ? (/^\p{M}+/u.exec(from)?.[0] ?? "") : "";
      if (marks) Object.assign(part, { text: part.text + marks, marks });
      return from.slice(marks.length);
    };
    parts.forEach((part, i) => (part.gap = take(parts[i - 1], part.gap)));
    take(parts.findLast((part) => !part.special), rest);
    return parts;
  }

  /** Words as the same; their tokens are those of `exp.words`. */
  function words(exp) {
    const parts = tokens(exp);
    return exp.words.map((word) => ({
      gap: parts[word.tokens[0]].gap + /^\s*/.exec(exp.tokens[word.tokens[0]])[0], // some tokens begin with their space
      text: visible(word.text) + (parts[word.tokens[word.tokens.length - 1]].marks ?? ""),
      special: parts[word.tokens[0]].special,
      tokens: word.tokens,
    }));
  }

  const merged = (parts, scores) => parts.map((part) => part.tokens.reduce((sum, i) => sum + (scores[i] ?? 0), 0));

  const isImage = (exp) => Array.isArray(exp.scores[0]);
  const isSound = (exp) => exp.parts?.[0]?.kind === "frame";
  const onPicture = (part) => ["patch", "pixel", "frame"].includes(part.kind);

  /** One input of several alone, as `Explanation.only` has it; several pictures stand side by side. */
  function only(exp, part, start) {
    const [rows, columns] = part.shape.slice(-2);
    const count = part.shape.reduce((a, b) => a * b, 1);
    const own = exp.scores.slice(start, start + count);
    const grid = part.shape.length > 1;
    const picture = onPicture(part) && (grid || part.kind === "frame");
    const pick = (values) => (picture ? [] : (values ?? []).slice(start, start + count));
    const line = (row) =>
      Array.from({ length: count / (rows * columns) }, (_, n) => n * rows * columns + row * columns).flatMap((from) =>
        own.slice(from, from + columns),
      );
    return {
      ...exp,
      scores: !picture ? own : grid ? Array.from({ length: rows }, (_, row) => line(row)) : [own],
      ...Object.fromEntries(["tokens", "offsets", "word_ids", "special", "sides"].map((name) => [name, pick(exp[name])])),
      words: null,
      text: picture ? null : exp.text,
      image: picture ? exp.image : null,
      parts: [part],
    };
  }

  /** What is shown of an explanation, as `Explanation.apart` has it: text and picture by themselves, a wave as a row. */
  function apart(exp) {
    const parts = exp.parts ?? [];
    const wave = parts.length === 1 && parts[0].kind === "frame" && !isImage(exp);
    if (!wave && new Set(parts.map(onPicture)).size < 2) return [exp];
    let start = 0;
    return parts.map((part) => {
      const own = only(exp, part, start);
      start += part.shape.reduce((a, b) => a * b, 1);
      return own;
    });
  }

  /** From when to when a piece of a sound is, and which of its bands, counted from the lowest. */
  function moment(exp, i, columns) {
    const { seconds } = exp.parts[0];
    const [row, column] = [Math.floor(i / columns), i % columns];
    const digits = seconds >= 0.0099 ? 2 : 4;
    const span = [column, column + 1].map((n) => (n * seconds).toFixed(digits)).join("–");
    return `${span} s${exp.scores.length > 1 ? `, band ${exp.scores.length - row}` : ""}`;
  }

  /**
   * {parts, scores, rank, total, count, scale, sections}: everything a view needs of one explanation, as tokens or as
   * words. A section is what one view shows: all of it, or the text or the picture alone, whose first feature is number
   * `from`; ranks and shares are among all. Without `special` tokens, the strongest of the others has the full colour.
   */
  function features(exp, view = "tokens", special = true) {
    const sections = apart(exp).map((own) => laid(own, view));
    const whole = complete({
      exp,
      parts: sections.flatMap((own) => own.parts),
      scores: sections.flatMap((own) => own.scores),
      sections,
    });
    const seen = (own) => own.scores.filter((_, i) => special || !own.parts[i].special);
    whole.scale = whence.scaleOf(seen(whole));
    let from = 0;
    for (const own of sections) {
      const rank = whole.rank.slice(from, from + own.parts.length);
      Object.assign(own, { from, rank, total: whole.total, count: whole.count, scale: whence.scaleOf(seen(own)) });
      from += own.parts.length;
    }
    return whole;
  }

  /** {exp, parts, scores} of what one view shows, with {columns, rows} where that is a picture. */
  function laid(exp, view) {
    if (isImage(exp)) {
      const scores = exp.scores.flat();
      const columns = exp.scores[0].length;
      const parts = scores.map((_, i) => ({
        gap: "",
        text: isSound(exp) ? moment(exp, i, columns) : `patch ${Math.floor(i / columns)},${i % columns}`,
        tokens: [i],
      }));
      return { exp, parts, scores, columns, rows: exp.scores.length };
    }
    if (!exp.tokens.length) {
      const parts = exp.scores.map((_, i) => ({ gap: i ? " " : "", text: `feature ${i}`, tokens: [i] }));
      return { exp, parts, scores: exp.scores };
    }
    const parts = view === "words" && exp.words ? words(exp) : tokens(exp);
    return { exp, parts, scores: view === "words" && exp.words ? merged(parts, exp.scores) : exp.scores };
  }

  function complete(found) {
    found.rank = whence.ranks(found.scores);
    found.scale = whence.scaleOf(found.scores);
    found.count = found.parts.length;
    found.total = found.scores.reduce((sum, s) => sum + Math.abs(s ?? 0), 0) || 1;
    return found;
  }

  /** Where a feature stands in the text, in words; nothing for special tokens and images. */
  function place(exp, part) {
    const first = exp.offsets?.[part.tokens[0]];
    const last = exp.offsets?.[part.tokens[part.tokens.length - 1]];
    return first && last[1] > first[0] ? `${first[0]}–${last[1]}` : "";
  }

  /** What a number of this explanation is measured in. */
  function unit(exp) {
    if (exp.class_specific === false) return "Shares of attention: compare them with each other only";
    if (!exp.conservation) return "Without a unit: compare them with each other only";
    return `Points of the score of ${exp.target}: +1 raises it by 1`;
  }

  /** What the explained score is, in words. */
  function scored(exp) {
    if (/ rather than /.test(exp.target)) return "the difference of two scores (logits)";
    return exp.prediction?.probabilities?.length ? "the score before it becomes a probability (logit)" : "the score of the model";
  }

  Object.assign(whence, { apart, features, isImage, isSound, place, scored, unit });
})((globalThis.whence ??= {}));
