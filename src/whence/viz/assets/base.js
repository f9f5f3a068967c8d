// What every view needs: elements, numbers, colours, theme, live region, tip, clipboard, files.
"use strict";
(function (whence) {
  const LEVELS = 24; // steps of colour on each side of zero: palette.css has a class for each
  const FOR = [230, 97, 1];
  const AGAINST = [33, 102, 172];

  /** An element: `el("p", {class: "x", text: "…", on: {click}, style: {width: "1px"}}, child, …)`. No HTML is parsed. */
  function el(name, options = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "text") node.textContent = value;
      else if (key === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
      // through the CSSOM: a style attribute would need 'unsafe-inline' in the page's policy
      else if (key === "style") for (const [name, v] of Object.entries(value)) node.style.setProperty(name, v);
      else if (key === "data") Object.assign(node.dataset, value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return node;
  }

  const known = (x) => typeof x === "number" && Number.isFinite(x);

  /** A number for people, with its sign: +1.23, −0.004, –. */
  function signed(x) {
    if (!known(x)) return "–";
    return (x < 0 ? "−" : "+") + plain(Math.abs(x));
  }

  function plain(x) {
    if (!known(x)) return "–";
    if (x === 0) return "0";
    const size = Math.abs(x);
    const text = size >= 1e5 || size < 1e-3 ? x.toExponential(2) : size >= 100 ? x.toFixed(1) : x.toPrecision(3);
    return text.replace("-", "−");
  }

  /** A share for people; no line break takes the sign from its number. */
  const percent = (x, digits = 1) => (known(x) ? `${(100 * x).toFixed(digits)}\u00a0%`.replace("-", "−") : "–");

  /** The score that gets the full colour. */
  function scaleOf(scores) {
    let most = 0;
    for (const s of scores) if (known(s) && Math.abs(s) > most) most = Math.abs(s);
    return most || 1;
  }

  /** The class of palette.css for a score. */
  function shade(score, scale) {
    if (!known(score)) return "w-z";
    const level = Math.round(LEVELS * Math.min(1, Math.abs(score) / scale));
    return level === 0 ? "w-z" : (score < 0 ? "w-n" : "w-p") + level;
  }

  /** The key that orders by size: 1 is the largest. */
  function ranks(scores) {
    const order = Array.from(scores.keys()).sort(
      (a, b) => Math.abs(scores[b] ?? 0) - Math.abs(scores[a] ?? 0) || a - b,
    );
    const rank = new Uint32Array(scores.length);
    order.forEach((index, place) => (rank[index] = place + 1));
    return rank;
  }

  // -- theme -----------------------------------------------------------------------------------------------------

  function stored(key, value) {
    try {
      if (value === undefined) return localStorage.getItem(key);
      localStorage.setItem(key, value);
    } catch {
      return null; // a page from a file, or cookies switched off: the choice lasts as long as the page
    }
    return value;
  }

  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /** A button that changes between light and dark; before its first use the system decides. */
  function themeButton() {
    const before = stored("whence-theme");
    if (before === "light" || before === "dark") document.documentElement.dataset.theme = before;
    const button = el("button", { type: "button", class: "w-icon", "data-role": "theme" });
    const name = () => {
      button.setAttribute("aria-label", isDark() ? "Change to light colours" : "Change to dark colours");
      button.title = button.getAttribute("aria-label");
      button.textContent = isDark() ? "☀" : "☾";
    };
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = stored("whence-theme", isDark() ? "light" : "dark") || "dark";
      name();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
    name();
    return button;
  }

  // -- saying and showing ----------------------------------------------------------------------------------------

  let region = null;
  /** Say something to screen readers. */
  function say(text) {
    if (!region)
      document.body.append((region = el("div", { class: "w-unseen", role: "status", "aria-live": "polite" })));
    region.textContent = text;
  }

  let tip = null;
  let anchor = null; // what the tip speaks of: anything with a rectangle of the viewport
  /** Show `content` (elements) beside `at`, and keep it there while the page scrolls; nothing hides it. */
  function showTip(content, at) {
    if (!tip) document.body.append((tip = el("div", { class: "w-tip", role: "tooltip", id: "w-tip" })));
    anchor = content ? at : null;
    if (content) tip.replaceChildren(...content);
    placeTip();
  }
  function placeTip() {
    if (!tip) return;
    const box = anchor?.getBoundingClientRect();
    const { clientWidth: room, clientHeight: height } = document.documentElement;
    tip.hidden = !box || !box.width || box.bottom < 0 || box.top > height;
    if (tip.hidden) return;
    const own = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(room - own.width - 8, box.left + box.width / 2 - own.width / 2));
    const above = box.top - own.height - 8;
    tip.style.setProperty("left", `${left}px`);
    tip.style.setProperty("top", `${above > 4 ? above : box.bottom + 8}px`);
  }
  addEventListener("scroll", placeTip, { passive: true, capture: true });
  addEventListener("keydown", (event) => event.key === "Escape" && showTip(null));

  /** A line of name and value for a tip or a list of facts. */
  const fact = (name, value) => [el("dt", { text: name }), el("dd", { text: value })];

  // -- taking away -----------------------------------------------------------------------------------------------

  /** Copy text; where the page has no clipboard (a file, plain http), through a selection. */
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = el("textarea", { class: "w-unseen" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  function copyButton(label, text) {
    const button = el("button", { type: "button", class: "w-button", text: label });
    button.addEventListener("click", async () => {
      const done = await copy(text());
      button.textContent = done ? "Copied" : "Could not copy";
      say(button.textContent);
      setTimeout(() => (button.textContent = label), 1600);
    });
    return button;
  }

  function download(name, content, type = "application/json") {
    const blob = content instanceof Blob ? content : new Blob([content], { type });
    const link = el("a", { href: URL.createObjectURL(blob), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // -- small controls --------------------------------------------------------------------------------------------

  let serial = 0;
  const fresh = (prefix) => `${prefix}-${++serial}`;

  /** A row of choices of which one holds; `act(value)` when it changes. */
  function choice(name, values, chosen, act) {
    const group = fresh("w-choice");
    const items = values.map(([value, label]) => {
      const input = el("input", { type: "radio", name: group, value });
      input.checked = value === chosen;
      input.addEventListener("change", () => act(value));
      return el("label", {}, input, el("span", { text: label }));
    });
    return el("div", { class: "w-choice", role: "radiogroup", "aria-label": name }, items);
  }

  /** A switch that is on or off. */
  function toggle(name, on, act) {
    const input = el("input", { type: "checkbox", role: "switch" });
    input.checked = on;
    input.addEventListener("change", () => act(input.checked));
    return el("label", { class: "w-toggle" }, input, el("span", { text: name }));
  }

  Object.assign(whence, {
    AGAINST,
    FOR,
    LEVELS,
    choice,
    copy,
    copyButton,
    download,
    el,
    fact,
    fresh,
    known,
    percent,
    plain,
    ranks,
    say,
    scaleOf,
    shade,
    showTip,
    signed,
    themeButton,
    toggle,
  });
})((globalThis.whence ??= {}));
