// The whole picture of one input: classes, a row per method, and the numbers of the method that is looked at.
"use strict";
(function (whence) {
  const { el, signed } = whence;

  /**
   * Draw into `root`. `data`: {explanations, prediction?, failed?, waiting?}. `options`: `explain(label)` gets another
   * target, `changed(label)` hears of one, `methods` say what methods are (see methods.js), `memory` keeps how the board is
   * looked at, `beside(exp)` is drawn in the head of a row, `between` under the rows, `order` sorts methods, `looked(one, all)`
   * hears which explanation is looked at.
   */
  function board(root, data, options = {}) {
    const { explanations } = data;
    const first = explanations[0];
    const prediction = data.prediction ?? first.prediction ?? { labels: [] };
    const sections = whence.apart(first); // text, picture or sound; or several of them, in one explanation
    const seen = sections.find(whence.isImage);
    const alone = sections.length === 1;
    const image = alone && Boolean(seen);
    const sound = Boolean(seen) && whence.isSound(seen);
    const targets = [...new Set(explanations.map((exp) => exp.target))];
    const memory = (options.memory ??= {}); // choices that outlive this board: the next answer is shown the same way
    const state = Object.assign(memory, {
      target: targets.includes(memory.target) ? memory.target : targets[0],
      view: memory.view ?? "tokens",
      together: memory.together ?? false,
      special: memory.special ?? true,
      opacity: memory.opacity ?? 0.5,
      smooth: memory.smooth ?? false,
      now: memory.now ?? null,
    });
    let views = [];
    let found = [];
    let lines = []; // over the drawings of a sound, where it is being played

    const shown = () => explanations.filter((exp) => exp.target === state.target);
    const scaleFor = (one) => (state.together ? Math.max(...found.map((f) => f.scale)) : one.scale);
    const every = (act) => views.flat().forEach(act);
    const light = (i) =>
      found.forEach(({ sections: own }, n) =>
        own.forEach(({ from, parts }, s) => {
          const inside = i !== null && i >= from && i < from + parts.length;
          views[n][s].light(inside ? i - from : null);
        }),
      );
    // unless one was clicked, the first that has something to say about the target
    const chosen = () =>
      found.find((f) => f.exp.method === state.method) ?? found.find((f) => f.exp.class_specific !== false) ?? found[0];

    // -- the parts of the page ---------------------------------------------------------------------------------

    const top = el("div", { class: "w-top" });
    const verdict = el("h2", { class: "w-verdict", "aria-live": "polite" });
    const tools = el("div", { class: "w-tools" });
    const panels = sound ? "w-panels w-sounds" : "w-panels";
    const rows = el("div", { class: image ? panels : "w-rows" });
    const details = el("div", { class: "w-details" });
    root.replaceChildren(top, tools, rows, ...(options.between ?? []), details);
    // rows of a long text scroll together: the same words stay under each other
    const scrolled = ({ target }) => {
      if (!target.matches(".w-many .w-text")) return;
      every(({ root: other }) => other !== target && other.matches(".w-text") && (other.scrollTop = target.scrollTop));
    };
    rows.addEventListener("scroll", scrolled, { passive: true, capture: true });

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
      const others = targets.filter((target) => !prediction.labels.includes(target));
      top.replaceChildren(
        el(
          "div",
          { class: "w-said" },
          verdict,
          el(
            "p",
            { class: "w-quiet w-asked" },
            "Explained: ",
            el("bdi", { class: "w-strong", text: state.target }),
            ` = ${signed(shown()[0].target_score)}`,
            el("span", { text: `, ${whence.scored(shown()[0])}` }),
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
        drawVerdict();
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
            redraw((special) => ({ special })), // the others then have the full range of colours
          ),
        );
      if (shown().length > 1 || !alone)
        parts.push(
          whence.toggle(
            "One scale for all",
            state.together,
            redraw((together) => ({ together })),
          ),
        );
      if (seen) {
        const slider = el("input", {
          type: "range",
          min: 0,
          max: 100,
          value: 100 * state.opacity,
          "aria-label": "Heat map opacity",
        });
        slider.addEventListener("input", () => {
          state.opacity = slider.value / 100;
          every((view) => view.change?.({ opacity: state.opacity }));
        });
        const beneath = el("span", { text: sound ? "Sound" : "Image" });
        parts.push(el("label", { class: "w-slider" }, beneath, slider, el("span", { text: "Heat map" })));
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
              every((view) => view.change?.({ smooth: state.smooth }));
            },
          ),
        );
      }
      tools.replaceChildren(...parts, whence.legend(state.target));
    }

    function drawRows() {
      found = sorted(shown()).map((exp) => whence.features(exp, state.view, state.special));
      rows.classList.toggle("w-nospecial", !state.special);
      rows.classList.toggle("w-many", found[0].parts.length > 1500);
      const hear = (one, s) => ({
        over(i, span) {
          light(one.sections[s].from + i);
          const beside = found.map((other) => other.sections[s]);
          whence.showTip(whence.featureTip(one.sections[s], i, beside, scaleFor), span);
        },
        out() {
          light(null);
          whence.showTip(null);
        },
        pick: () => look(one.exp.method),
      });
      views = found.map((one) =>
        one.sections.map((own, s) => {
          const picture = whence.isImage(own.exp);
          const what = whence.isSound(own.exp) ? "Moments" : picture ? "Patches" : state.view;
          const label = `${what} scored by ${one.exp.method} for ${one.exp.target}`;
          const { opacity, smooth } = state;
          const settings = { label, scale: scaleFor(own), opacity, smooth, hear: hear(one, s) };
          return picture ? whence.overlay(own, settings) : whence.text(own, settings);
        }),
      );
      lines = []; // what is played goes on: see `play`
      const cards = found.map((one, n) => card(one, views[n]));
      if (seen?.image) cards.unshift(original());
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
        ...(data.waiting ?? []).map(({ method, text }) =>
          el(
            "div",
            { class: "w-row w-waiting", data: { waiting: method } },
            el("div", { class: "w-head" }, whence.named(method, options.methods)),
            el("p", { class: "w-quiet", text }),
          ),
        ),
      );
      drawChosen();
      play(state.now);
    }

    /** Mark where a sound is being played, in seconds, in every drawing of it; null: nowhere. */
    function play(seconds) {
      state.now = seconds;
      lines.forEach((line) => line.play(seconds));
    }

    /** What was explained, as it is. */
    function original() {
      const alt = sound ? "The explained sound" : "The explained image";
      const drawn = sections.map((own) =>
        whence.isImage(own)
          ? placed(own, el("img", { class: "w-picture", src: own.image, alt }))
          : el("p", { class: "w-text", text: whence.features(own).parts.map((p) => p.gap + p.text).join("") }),
      );
      return el(
        "figure",
        { class: "w-row" },
        el("figcaption", { class: "w-head", text: "original" }),
        alone ? drawn : together(drawn),
      );
    }

    /** A drawing, with seconds beneath it where it is of a sound. */
    function placed(own, drawing) {
      if (!whence.isSound(own)) return drawing;
      const line = whence.timed(own, drawing);
      lines.push(line);
      return line.root;
    }

    const together = (drawn) => el("div", { class: sound ? "w-both w-stacked" : "w-both" }, drawn);

    function card(one, own) {
      const { exp } = one;
      const name = el(
        "button",
        {
          type: "button",
          class: "w-method",
          title: "Show this method's sentence and numbers",
          on: { click: () => look(exp.method) },
        },
        whence.named(exp.method, options.methods),
      );
      const about = whence.about(exp.method, options.methods);
      const notes = exp.class_specific
        ? null
        : el("span", {
            class: "w-note",
            text: "same for every class",
            title: "This method does not look at the class",
          });
      const strongest = signed(one.scores.reduce((a, b) => (Math.abs(b ?? 0) > Math.abs(a ?? 0) ? b : a), 0));
      const gloss = whence.unit(exp);
      const sum = el("span", { class: "w-quiet w-max", title: gloss, text: `strongest ${strongest}` });
      const drawn = own.map(({ root: drawing }, s) => placed(one.sections[s].exp, drawing));
      return el(
        "div",
        { class: "w-row", data: { method: exp.method } },
        el(
          "div",
          { class: "w-head" },
          el("div", { class: "w-title-line" }, name, about),
          options.beside?.(exp),
          sum,
          alone ? null : whence.shares(one),
          image ? null : notes,
        ),
        alone ? drawn : together(drawn),
        image ? notes : null, // under the picture, so that pictures stand in line
      );
    }

    // -- the numbers of one method -----------------------------------------------------------------------------

    function look(method) {
      state.method = method;
      memory.method = method;
      drawChosen();
      drawDetails();
      drawVerdict();
    }

    /** The sentence of the method that is looked at. */
    function drawVerdict() {
      const { exp } = chosen();
      const kinds = { said: "w-best", target: "w-strong", for: "w-because", against: "w-despite" };
      const pieces = (exp.verdict ?? []).map(({ text, kind }) =>
        kind ? el("bdi", { class: kinds[kind], text }) : el("span", { text }),
      );
      const by = found.length > 1 ? el("span", { class: "w-by" }, " by ", whence.title(exp.method, options.methods)) : null;
      verdict.replaceChildren(...pieces, ...(by ? [by] : []));
      options.looked?.(chosen(), found);
    }

    /** Methods in the order that was asked for; those that foretell the model best first, where that is known. */
    const sorted = (exps) => (options.order ? [...exps].sort(options.order) : exps);

    function drawChosen() {
      for (const row of rows.querySelectorAll(".w-row[data-method]")) {
        const on = row.dataset.method === chosen().exp.method;
        row.classList.toggle("w-chosen", on && found.length > 1);
        row.querySelector(".w-method").setAttribute("aria-pressed", String(on));
      }
    }

    function drawDetails() {
      const word = state.view === "words" ? "word" : "token";
      const noun = !alone ? "feature" : sound ? "moment" : image ? "patch" : word;
      const methods = options.methods;
      details.replaceChildren(...whence.details(chosen(), found, { scaleFor, light, noun, methods, special: state.special }));
    }

    function drawAll() {
      drawTop();
      drawTools();
      drawRows();
      drawDetails();
      drawVerdict();
    }
    drawAll();
    return { state, redraw: drawAll, play };
  }

  Object.assign(whence, { board });
})((globalThis.whence ??= {}));
