// A trace: prompt and written text as they read. What is pointed at among the written colours all that stood before it;
// what is clicked or dragged over stays; a click into the prompt shows what of the written it served.
"use strict";
(function (whence) {
  const { el, fact, signed } = whence;
  const MANY = 350; // cells from which a text scrolls in a frame of its own
  const BARS = 8;
  const quoted = (text) => (text.trim() ? text.trim() : text.includes("\n") ? "⏎" : "␣");
  const sum = (values, from, to) => {
    let made = 0;
    for (let k = from; k < to; k++) made += values[k];
    return made;
  };

  /** `found` as bars.js wants it. */
  function listed(names, scores) {
    const parts = names.map((text) => ({ text }));
    return { parts, scores, rank: whence.ranks(scores), scale: whence.scaleOf(scores) };
  }

  /** All cells in the order of the text, and an element for each passage. */
  function written(data) {
    const cells = [];
    const blocks = data.passages.map(({ name, quiet, cells: own }, n) => {
      const html = own.map(([gap, text, start, stop, row, special]) => {
        const base = `w-t${special ? " w-s" : ""}${text ? "" : " w-void"}`;
        const i = cells.push({ text, start, stop, row, base, passage: n, name }) - 1;
        const blank = text.trim() ? "" : ' aria-label="white space"';
        return `${whence.escaped(gap)}<span role="option" aria-selected="false"${blank} class="${base}" data-i="${i}">${whence.escaped(text)}</span>`;
      });
      const isOwn = n === data.passages.length - 1;
      const label = isOwn ? "Written: choose what is explained" : `${name}: choose a word to see what it served`;
      const text = el("div", { class: "w-text", dir: "auto", role: "listbox", "aria-label": label });
      if (isOwn) text.setAttribute("aria-multiselectable", "true");
      text.innerHTML = html.join(""); // every text in it is escaped
      const kind = `w-passage${quiet ? " w-template" : ""}${isOwn ? " w-own" : ""}`;
      return el("div", { class: kind, data: { name } }, el("div", { class: "w-who", text: name }), text);
    });
    return { cells, blocks };
  }

  function trace(root, data) {
    const table = whence.rows(data);
    const { cells, blocks } = written(data);
    const first = cells.findIndex((cell) => cell.row >= 0); // the first written cell; the others follow it
    const last = table.count - 1;
    const whole = { from: 0, to: last };
    const state = { asked: whole, pinned: false, anchor: null, follow: false };
    let lit = [];

    const prompt = el("div", { class: first > MANY ? "w-prompt w-framed" : "w-prompt" }, blocks.slice(0, -1));
    const own = el("div", { class: table.count > MANY ? "w-answer w-framed" : "w-answer" }, blocks.slice(-1));
    const spans = [...prompt.querySelectorAll(".w-t"), ...own.querySelectorAll(".w-t")];
    const panel = el("aside", { class: "w-card w-panel", "aria-label": "What is explained" });
    const pictures = data.others.map((other) => whence.pictureOf(other));

    // -- what is asked: rows {from, to}, or {cell} for what a cell served -------------------------------------------

    const isWhole = ({ from, to }) => from === 0 && to === last;
    const same = (a, b) => a.from === b.from && a.to === b.to && a.cell === b.cell;

    function answer(asked) {
      if (asked.cell === undefined) {
        const found = table.span(asked.from, asked.to, state.follow);
        return { ...found, each: cells.map((cell) => sum(found.scores, cell.start, cell.stop)) };
      }
      const { start, stop } = cells[asked.cell];
      const served = table.served(start, stop);
      return { served, each: cells.map((cell) => (cell.row < 0 ? 0 : served[cell.row])) };
    }

    let shown = null;
    let drawn = null;
    function show(asked) {
      if (shown && same(shown, asked)) return;
      shown = asked;
      drawn = answer(asked);
      const scale = (drawn.scale = whence.scaleOf(drawn.each));
      const reverse = asked.cell !== undefined;
      cells.forEach((cell, i) => {
        const picked = reverse ? i === asked.cell : cell.row >= asked.from && cell.row <= asked.to && !isWhole(asked);
        const later = reverse ? cell.row >= 0 && cell.stop <= cells[asked.cell].start : cell.row > asked.to;
        const kind = `${cell.base} ${whence.shade(drawn.each[i], scale)}${picked ? " w-picked" : ""}${later ? " w-later" : ""}`;
        if (spans[i].className !== kind) spans[i].className = kind;
        const chosen = String(picked);
        if (spans[i].getAttribute("aria-selected") !== chosen) spans[i].setAttribute("aria-selected", chosen);
      });
      pictures.forEach((picture) => picture.draw(reverse ? null : drawn.scores));
      fill(asked);
      for (const [name, button] of Object.entries(buttons)) {
        const on = name === "whole" ? !reverse && isWhole(asked) : !reverse && asked.from === asked.to && last > 0;
        button.setAttribute("aria-pressed", String(on));
      }
    }

    function pin(asked) {
      Object.assign(state, { asked, pinned: !(asked.cell === undefined && isWhole(asked)) });
      shown = null; // what was only pointed at is shown again, as something that stays
      show(asked);
    }
    const release = () => {
      state.anchor = null;
      pin(whole);
    };

    // -- the panel ----------------------------------------------------------------------------------------------------

    const read = ({ from, to }) => data.passages.at(-1).cells.slice(from, to + 1).map(([gap, text]) => gap + text).join("").replaceAll("⏎\n", "\n"); // prettier-ignore

    function light(found) {
      lit.forEach((span) => span.classList.remove("w-lit"));
      lit = found === null ? [] : spans.filter((_, i) => found(cells[i]));
      lit.forEach((span) => span.classList.add("w-lit"));
      const frame = lit[0]?.closest(".w-framed");
      if (frame) lit[0].scrollIntoView({ block: "nearest" });
    }

    function sides(scores) {
      const amounts = new Map();
      const counted = new Set(); // a unit of several rows is one column
      for (const { start, stop, row, name } of cells) {
        const key = row >= 0 ? "its own text" : name;
        for (let k = start; k < stop; k++) {
          if (counted.has(k)) continue;
          counted.add(k);
          amounts.set(key, (amounts.get(key) ?? 0) + scores[k]);
        }
      }
      for (const { name, start, stop } of data.others) amounts.set(name, (amounts.get(name) ?? 0) + sum(scores, start, stop));
      if (!state.follow && shown.to === 0) amounts.delete("its own text");
      return listed([...amounts.keys()], [...amounts.values()]);
    }

    function fill(asked) {
      if (asked.cell !== undefined) return fillServed(asked.cell);
      const text = read(asked);
      const kicker = isWhole(asked) ? "All that was written" : asked.from === asked.to ? "Written" : `${asked.to - asked.from + 1} written in a row`;
      const found = listed(data.tokens, drawn.scores);
      const choose = (i) => light(i === null ? null : (cell) => cell.start <= i && i < cell.stop);
      panel.replaceChildren(
        el("div", { class: "w-asking" }, el("span", { class: "w-who", text: kicker }), state.pinned ? letGo() : null),
        el("p", { class: "w-quote", dir: "auto" }, el("bdi", { text: text.trim() || quoted(text) })),
        el("p", { class: "w-score" }, el("strong", { text: signed(drawn.score) }), el("span", { class: "w-quiet", text: ` points of the score, by ${data.whole.method}` })),
        el("h2", { text: "Where it came from" }),
        whence.bars(sides(drawn.scores), { most: 12 }),
        el("h2", { text: "Strongest" }),
        whence.bars(found, { most: BARS, light: choose }),
        el("h2", { text: "Receipt" }),
        whence.receipt({ conservation: drawn.receipt, target: "explained" }),
      ); // prettier-ignore
      return undefined;
    }

    function fillServed(i) {
      const cell = cells[i];
      const found = listed(data.passages.at(-1).cells.map(([, text]) => text), Array.from(drawn.served)); // prettier-ignore
      const choose = (row) => light(row === null ? null : (one) => one.row === row);
      const most = drawn.served.reduce((total, score) => total + score, 0);
      panel.replaceChildren(
        el("div", { class: "w-asking" }, el("span", { class: "w-who", text: `What it served · ${cell.name}` }), letGo()),
        el("p", { class: "w-quote", dir: "auto" }, el("bdi", { text: quoted(cell.text) })),
        el("p", { class: "w-score" }, el("strong", { text: signed(most) }), el("span", { class: "w-quiet", text: " to all that was written" })),
        el("h2", { text: "Written with it, and against it" }),
        whence.bars(found, { most: 2 * BARS, light: choose }),
      ); // prettier-ignore
    }

    const letGo = () =>
      el("button", { type: "button", class: "w-letgo", text: "Show all", title: "Escape does it too", on: { click: release } }); // prettier-ignore

    // -- pointing and keys --------------------------------------------------------------------------------------------

    const number = (target) => Number(target.closest?.(".w-t")?.dataset.i ?? -1);

    function tip(i) {
      const cell = cells[i];
      const facts = [fact("from", cell.row >= 0 ? "written" : cell.name)];
      if (cell.stop > cell.start || shown.cell !== undefined) facts.unshift(fact(shown.cell === undefined ? "score" : "was served", signed(drawn.each[i])));
      return [
        el("p", { class: "w-tipname" }, el("bdi", { text: quoted(cell.text) })),
        el("dl", { class: "w-facts" }, facts),
      ];
    }

    function over(i) {
      const { row } = cells[i];
      if (!state.pinned && row >= 0) show({ from: row, to: row });
      if (state.pinned || row < 0) whence.showTip(tip(i), spans[i]);
      else whence.showTip(null);
    }
    const out = () => {
      whence.showTip(null);
      if (!state.pinned) show(state.asked);
    };

    const stops = { prompt: 0, own: first };
    const region = (i) => (i < first ? "prompt" : "own");
    function move(i) {
      const where = region(i);
      if (spans[stops[where]]) spans[stops[where]].tabIndex = -1;
      stops[where] = i;
      spans[i].tabIndex = 0;
    }
    for (const i of new Set(Object.values(stops))) if (spans[i]) spans[i].tabIndex = 0;

    const between = (a, b) => ({ from: Math.min(a, b), to: Math.max(a, b) });
    function pick(i, further = false) {
      const { row } = cells[i];
      if (row < 0) {
        state.anchor = null;
        if (state.pinned && state.asked.cell === i) release();
        else pin({ cell: i });
        return;
      }
      if (!further || state.anchor === null) state.anchor = row;
      pin(between(state.anchor, row));
    }

    const text = el("div", { class: "w-card w-conversation" }, prompt, own);
    let dragging = false;
    text.addEventListener("pointerdown", (event) => {
      const i = number(event.target);
      if (i < 0 || event.button !== 0) return;
      event.preventDefault(); // no selection of the browser's own
      text.classList.add("w-pointed");
      move(i);
      quiet = true;
      spans[i].focus({ preventScroll: true });
      quiet = false;
      whence.showTip(null);
      dragging = cells[i].row >= 0;
      if (dragging && state.pinned && !event.shiftKey && shown.from === cells[i].row && shown.to === cells[i].row) {
        dragging = false;
        release(); // a second click lets go
      } else pick(i, event.shiftKey);
    });
    text.addEventListener("pointerover", (event) => {
      const i = number(event.target);
      if (i < 0) return;
      if (dragging && event.buttons & 1) {
        if (cells[i].row >= 0) pin(between(state.anchor, cells[i].row));
      } else over(i);
    });
    addEventListener("pointerup", () => (dragging = false));
    text.addEventListener("pointerleave", out);
    let quiet = false;
    text.addEventListener("focusin", (event) => {
      const i = number(event.target);
      if (i < 0 || quiet) return;
      move(i);
      over(i);
    });
    text.addEventListener("focusout", out);
    text.addEventListener("keydown", (event) => {
      text.classList.remove("w-pointed");
      const i = number(event.target);
      if (i < 0) return;
      const forward = getComputedStyle(event.target).direction === "rtl" ? -1 : 1;
      const step = { ArrowRight: forward, ArrowLeft: -forward, ArrowDown: 10, ArrowUp: -10 }[event.key];
      const [low, high] = region(i) === "own" ? [first, cells.length - 1] : [0, first - 1];
      if (step || event.key === "Home" || event.key === "End") {
        const wanted = step ? i + step : event.key === "Home" ? low : high;
        const to = Math.max(low, Math.min(high, wanted));
        move(to);
        quiet = true;
        spans[to].focus();
        quiet = false;
        if (cells[to].row >= 0) {
          if (event.shiftKey && state.anchor === null) state.anchor = cells[i].row;
          pick(to, event.shiftKey);
          whence.say(spokenOf());
        } else over(to);
      } else if (event.key === "Enter" || event.key === " ") {
        pick(i);
        whence.say(spokenOf());
      } else if (event.key === "Escape") release();
      else return;
      event.preventDefault();
    });
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && state.pinned) release();
    });

    function spokenOf() {
      const best = (scores, names) => {
        const rank = whence.ranks(scores);
        return Array.from(rank.keys()).filter((k) => rank[k] <= 3).sort((a, b) => rank[a] - rank[b]).map((k) => `${quoted(names[k])} ${signed(scores[k])}`).join(", "); // prettier-ignore
      };
      if (shown.cell !== undefined)
        return `${quoted(cells[shown.cell].text)} served ${best(Array.from(drawn.served), data.passages.at(-1).cells.map((cell) => cell[1]))}`; // prettier-ignore
      return `${quoted(read(shown))} ${signed(drawn.score)}, from ${best(Array.from(drawn.scores), data.tokens)}`;
    }

    // -- controls -----------------------------------------------------------------------------------------------------

    const button = (label, title, click) =>
      el("button", { type: "button", class: "w-button", text: label, title, "aria-pressed": "false", on: { click } });
    const buttons = {
      whole: button("Whole", "All that was written, explained as one", release),
      token: button("By token", "One after the other: the arrow keys go on", () => {
        const row = shown.cell === undefined && !isWhole(shown) ? shown.from : 0;
        move(first + row);
        pick(first + row);
        quiet = true;
        spans[first + row].focus();
        quiet = false;
      }),
    };
    const follow = whence.toggle("Follow its own text back", false, (on) => {
      state.follow = on;
      shown = null;
      show(state.asked);
    });
    follow.title = "What comes from the model's own words is passed on to where those came from";
    const tools = el(
      "div",
      { class: "w-tools" },
      el("div", { class: "w-switch", role: "group", "aria-label": "What is explained" }, Object.values(buttons)),
      table.follows && last > 0 ? follow : null,
      whence.legend(),
    );
    const hint = el("p", {
      class: "w-quiet w-noprint",
      text: "Point at what was written to see where it came from. Click or drag to keep a part of it; click a word of the prompt to see what it served.",
    });
    const beside = pictures.filter((picture) => picture.root).map((picture) => picture.root);
    if (beside.length) prompt.prepend(el("div", { class: "w-seen" }, beside));
    root.replaceChildren(tools, hint, el("div", { class: "w-traced" }, text, panel));
    show(whole);
    root.classList.add("w-complete");
    return { show, pin, release };
  }

  /** A picture (or the drawing of a sound) with its scores over it; nothing to see where it has no squares. */
  function pictureOf({ name, image, squares }) {
    if (!squares) return { root: null, draw() {} };
    const order = squares.flat();
    const found = { exp: { image }, rows: squares.length, columns: squares[0].length, scores: order.map(() => 0) };
    const view = whence.overlay(found, { label: `The ${name}, coloured`, scale: 1, opacity: 0.5, smooth: false });
    view.root.tabIndex = -1;
    return {
      root: el("figure", {}, view.root, el("figcaption", { class: "w-who", text: name })),
      draw(scores) {
        found.scores = order.map((column) => (scores ? scores[column] : 0));
        view.change({ scale: whence.scaleOf(found.scores) });
      },
    };
  }

  Object.assign(whence, { pictureOf, trace });
})((globalThis.whence ??= {}));
