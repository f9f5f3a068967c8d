// What methods are called and what they are, in words: a plain name with the short one beside it, and a popover.
"use strict";
(function (whence) {
  const { el } = whence;

  /** `methods`: {name: {title, summary, says, cost, caveat, slow}}; without it, names stand for themselves. */
  const title = (name, methods) => methods?.[name]?.title ?? name;

  function named(name, methods) {
    const plain = title(name, methods);
    if (plain === name) return [el("span", { class: "w-plain", text: name })];
    return [el("span", { class: "w-plain", text: plain }), " ", el("code", { class: "w-short", text: name })];
  }

  /** A button that opens what is known of a method: one sentence, what it costs, what to beware of. */
  function about(name, methods) {
    const known = methods?.[name];
    if (!known?.says) return null;
    const id = whence.fresh("w-about");
    const box = el(
      "div",
      { class: "w-pop", id, popover: "auto", role: "dialog", "aria-label": known.title, data: { about: name } },
      el("p", { class: "w-strong" }, named(name, methods)),
      el("p", { text: known.says }),
      el(
        "dl",
        { class: "w-facts" },
        whence.fact("Cost", known.cost),
        whence.fact("Beware", known.caveat),
        whence.fact("Exactly", known.summary),
      ),
    );
    const button = el("button", {
      type: "button",
      class: "w-info",
      popovertarget: id,
      "aria-label": `About ${known.title}`,
      text: "?",
    });
    box.addEventListener("toggle", (event) => {
      if (event.newState !== "open") return;
      const at = button.getBoundingClientRect();
      const own = box.getBoundingClientRect();
      const { clientWidth: room, clientHeight: height } = document.documentElement;
      box.style.setProperty("left", `${Math.max(8, Math.min(room - own.width - 8, at.left))}px`);
      box.style.setProperty("top", `${at.bottom + own.height + 12 < height ? at.bottom + 6 : Math.max(8, at.top - own.height - 6)}px`);
    });
    return el("span", { class: "w-abouts" }, button, box);
  }

  /** The method that is being read about; and the same after its page was drawn anew, which closes what was open. */
  const readAbout = (root) =>
    [...root.querySelectorAll(".w-pop")].find((box) => "popover" in box && box.matches(":popover-open"))?.dataset.about;
  const readOn = (root, name) => name && root.querySelector(`.w-pop[data-about="${CSS.escape(name)}"]`)?.showPopover();

  Object.assign(whence, { about, named, readAbout, readOn, title });
})((globalThis.whence ??= {}));
