// The whole picture of one input: classes, a row per method, and the numbers of the method that is looked at.
"use strict";
(function (whence) {
  const { el, percent, signed } = whence;

  /**
   * Draw into `root`. `data`: {explanations, prediction?, failed?}. `options`: `explain(label)` gets another target,
   * `changed(label)` hears of one, `summaries` describe methods, `memory` keeps how the board is looked at.
   */
  function board(root, data, options = {}) {
    const { explanations } = data;
    const first = explanations[0];
    const prediction = data.prediction ?? first.prediction ?? { labels: [] };
    const image = whence.isImage(first);
    const targets = [...new Set(explanations.map((exp) => exp.target))];
    const memory = (options.memory ??= {}); // choices that outlive this board: the next answer is shown the same way
    const state = Object.assign(memory, {
      target: targets.includes(memory.target) ? memory.target : targets[0],
      view: memory.view ?? "tokens",
      together: memory.together ?? false,
      special: memory.special ?? true,
      opacity: memory.opacity ?? 0.5,
      smooth: memory.smooth ?? false,
    });
    let views = [];
    let found = [];

    const shown = () => explanations.filter((exp) => exp.target === state.target);
    const scaleFor = (one) => (state.together ? Math.max(...found.map((f) => f.scale)) : one.scale);
    const chosen = () => found.find((f) => f.exp.method === state.method) ?? found[0];

    // -- the parts of the page ---------------------------------------------------------------------------------

    const top = el("div", { class: "w-top" });
    const tools = el("div", { class: "w-tools" });
    const rows = el("div", { class: image ? "w-panels" : "w-rows" });
    const details = el("div", { class: "w-details" });
    root.replaceChildren(top, tools, rows, details);
    // rows of a long text scroll together: the same words stay under each other
    const together = ({ target }) => {
      if (!target.matches(".w-many .w-text")) return;
      for (const { root: other } of views) if (other !== target) other.scrollTop = target.scrollTop;
    };
    rows.addEventListener("scroll", together, { passive: true, capture: true });

    function drawTop() {
      const can = (label) => targets.includes(label) || Boolean(options.explain);
      const act = (label) => {
        if (!targets.includes(label)) return options.explain(label);
        state.target = label;
        memory.target = label;
        drawAll();
        whence.say(`Explaining ${label}`);
        top.querySelector(`[data-label="${CSS.escape(label)}"]`)?.focus();
        return options.changed?.(label);
      };
      const best = prediction.labels[0];
      const share = prediction.probabilities?.[0];
      const others = targets.filter((target) => !prediction.labels.includes(target));
      top.replaceChildren(
        el(
          "div",
          { class: "w-said" },
          best === undefined ? null : el("p", { class: "w-quiet", text: "Prediction" }),
          best === undefined
            ? null
            : el(
                "p",
                { class: "w-best" },
                el("bdi", { text: best }),
                share === undefined ? "" : el("span", { text: percent(share) }),
              ),
          el(
            "p",
            { class: "w-quiet w-asked" },
            "Explained: ",
            el("bdi", { class: "w-strong", text: state.target }),
            ` = ${signed(shown()[0].target_score)}`,
          ),
        ),
        el(
          "div",
          {},
          prediction.labels.length ? whence.classes(prediction, { chosen: state.target, can, act }) : null,
          others.length > 1 || (others.length && targets.length > 1)
            ? whence.choice(
                "Target",
                targets.filter((t) => others.includes(t)).map((t) => [t, t]),
                state.target,
                act,
              )
            : null,
        ),
      );
    }

    function drawTools() {
      const parts = [];
      const redraw = (change) => (value) => {
        Object.assign(state, change(value));
        drawRows();
        drawDetails();
      };
      if (!image && first.words)
        parts.push(
          whence.choice(
            "View",
            [
              ["tokens", "Tokens"],
              ["words", "Words"],
            ],
            state.view,
            redraw((view) => ({ view })),
          ),
        );
      if (first.special?.some(Boolean))
        parts.push(
          whence.toggle(
            "Special tokens",
            state.special,
            (on) => ((state.special = on), rows.classList.toggle("w-nospecial", !on)),
          ),
        );
      if (shown().length > 1)
        parts.push(
          whence.toggle(
            "One scale for all",
            state.together,
            redraw((together) => ({ together })),
          ),
        );
      if (image) {
        const slider = el("input", {
          type: "range",
          min: 0,
          max: 100,
          value: 100 * state.opacity,
          "aria-label": "Heat map opacity",
        });
        slider.addEventListener("input", () => {
          state.opacity = slider.value / 100;
          views.forEach((view) => view.change({ opacity: state.opacity }));
        });
        parts.push(
          el("label", { class: "w-slider" }, el("span", { text: "Image" }), slider, el("span", { text: "Heat map" })),
        );
        parts.push(
          whence.choice(
            "Edges",
            [
              ["sharp", "Sharp"],
              ["smooth", "Smooth"],
            ],
            state.smooth ? "smooth" : "sharp",
            (value) => {
              state.smooth = value === "smooth";
              views.forEach((view) => view.change({ smooth: state.smooth }));
            },
          ),
        );
      }
      tools.replaceChildren(...parts, whence.legend());
    }

    function drawRows() {
      found = shown().map((exp) => whence.features(exp, state.view));
      rows.classList.toggle("w-nospecial", !state.special);
      rows.classList.toggle("w-many", found[0].parts.length > 1500);
      const light = (i) => views.forEach((view) => view.light(i));
      const hear = (one) => ({
        over(i, span) {
          light(i);
          whence.showTip(whence.featureTip(one, i, found, scaleFor), span.getBoundingClientRect());
        },
        out() {
          light(null);
          whence.showTip(null);
        },
        pick: () => look(one.exp.method),
      });
      views = found.map((one) => {
        const label = `${image ? "Patches" : state.view} scored by ${one.exp.method} for ${one.exp.target}`;
        const settings = { label, scale: scaleFor(one), opacity: state.opacity, smooth: state.smooth, hear: hear(one) };
        return image ? whence.overlay(one, settings) : whence.text(one, settings);
      });
      const cards = found.map((one, n) => card(one, views[n]));
      if (image && first.image) {
        cards.unshift(
          el(
            "figure",
            { class: "w-row" },
            el("figcaption", { class: "w-head", text: "original" }),
            el("img", { class: "w-picture", src: first.image, alt: "The explained image" }),
          ),
        );
      }
      rows.replaceChildren(
        ...cards,
        ...(data.failed ?? []).map(({ method, message }) =>
          el(
            "div",
            { class: "w-row w-failed", role: "note" },
            el("div", { class: "w-head", text: method }),
            el("p", { text: message }),
          ),
        ),
      );
      drawChosen();
    }

    function card(one, view) {
      const { exp } = one;
      const name = el("button", {
        type: "button",
        class: "w-method",
        text: exp.method,
        title: options.summaries?.[exp.method] ?? "Show this method's numbers below",
        on: { click: () => look(exp.method) },
      });
      const notes = exp.class_specific
        ? null
        : el("span", {
            class: "w-note",
            text: "same for every class",
            title: "This method does not look at the class",
          });
      const strongest = signed(one.scores.reduce((a, b) => (Math.abs(b ?? 0) > Math.abs(a ?? 0) ? b : a), 0));
      const sum = el("span", { class: "w-quiet w-max", text: `max ${strongest}` });
      return el(
        "div",
        { class: "w-row", data: { method: exp.method } },
        el("div", { class: "w-head" }, name, sum, image ? null : notes),
        view.root,
        image ? notes : null, // under the picture, so that pictures stand in line
      );
    }

    // -- the numbers of one method -----------------------------------------------------------------------------

    function look(method) {
      state.method = method;
      memory.method = method;
      drawChosen();
      drawDetails();
    }

    function drawChosen() {
      for (const row of rows.querySelectorAll(".w-row[data-method]")) {
        const on = row.dataset.method === chosen().exp.method;
        row.classList.toggle("w-chosen", on && found.length > 1);
        row.querySelector(".w-method").setAttribute("aria-pressed", String(on));
      }
    }

    function drawDetails() {
      const light = (i) => views.forEach((view) => view.light(i));
      const noun = image ? "patch" : state.view === "words" ? "word" : "token";
      details.replaceChildren(...whence.details(chosen(), found, { scaleFor, light, noun }));
    }

    function drawAll() {
      drawTop();
      drawTools();
      drawRows();
      drawDetails();
    }
    drawAll();
    return { state, redraw: drawAll };
  }

  Object.assign(whence, { board });
})((globalThis.whence ??= {}));
