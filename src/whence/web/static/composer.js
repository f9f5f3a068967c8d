// The form: model, text or image, methods, target.
const { el } = globalThis.whence;

/** Draw the form into `root`. `state` is read and changed; `act.explain()` when something is to be explained. */
export function composer(root, info, state, act) {
  const model = () => info.models.find((m) => m.name === state.model);
  const fits = (method) => method.kinds.includes(model().kind);
  let go;

  function draw() {
    const kind = model().kind;
    root.replaceChildren(
      ...(info.models.length > 1 ? [modelField()] : []),
      kind === "image" ? imageField() : textField(),
      ...(state.tab === "attention" ? [] : [methodField(), targetField(kind)]),
      buttons(),
    );
  }

  function modelField() {
    const select = el(
      "select",
      { id: "model" },
      info.models.map((m) => el("option", { value: m.name, text: `${m.name} · ${m.task}` })),
    );
    select.value = state.model;
    select.addEventListener("change", () => use(select.value));
    return el("div", { class: "field" }, el("label", { for: "model", text: "Model" }), select);
  }

  function examples() {
    const found = model().examples;
    if (!found.length) return null;
    const buttons = found.map((example, n) => {
      const image = model().kind === "image";
      const inside = image ? el("img", { src: example, alt: `Example ${n + 1}` }) : example;
      return el(
        "button",
        { type: "button", title: image ? null : example, on: { click: () => take(example) } },
        inside,
      );
    });
    return el("div", { class: "examples", role: "group", "aria-label": "Examples" }, buttons);
  }

  function textField() {
    const limit = info.limits.characters;
    const count = el("span");
    const area = el("textarea", {
      id: "text",
      dir: "auto",
      spellcheck: "false",
      placeholder: "Type a text, or drop one here",
    });
    area.value = state.text;
    const counted = () =>
      (count.textContent = `${area.value.length.toLocaleString("en")} of ${limit.toLocaleString("en")} characters`);
    area.addEventListener("input", () => {
      state.text = area.value;
      counted();
    });
    counted();
    return el(
      "div",
      { class: "field" },
      el("label", { for: "text", text: model().kind === "generation" ? "Prompt" : "Text" }),
      area,
      el("div", { class: "under" }, count, picker("Open a file", "text/*,image/*")),
      examples(),
    );
  }

  function imageField() {
    const shown = state.image
      ? el("img", { src: state.image, alt: "The image to explain" })
      : el("p", { text: "Drop or paste an image" });
    return el(
      "div",
      { class: "field", role: "group", "aria-label": "Image" },
      el("span", { text: "Image" }),
      el("div", { class: "picture" }, shown),
      el(
        "div",
        { class: "under" },
        el("span", { text: "PNG, JPEG, WebP, GIF, BMP" }),
        picker("Open a file", "image/*"),
      ),
      examples(),
    );
  }

  function picker(label, accept) {
    const input = el("input", {
      type: "file",
      accept,
      class: "w-unseen",
      tabindex: -1,
      "aria-label": label,
      "aria-hidden": "true",
    });
    input.addEventListener("change", () => input.files[0] && act.file(input.files[0]));
    return el("span", {}, input, el("button", { type: "button", text: label, on: { click: () => input.click() } }));
  }

  function methodField() {
    const usual = new Set([...info.default_methods, ...state.methods]);
    const chip = (method) => {
      const input = el("input", { type: "checkbox", value: method.name, name: "method" });
      input.checked = state.methods.includes(method.name);
      input.disabled = !input.checked && state.methods.length >= info.limits.methods;
      input.addEventListener("change", () => {
        const others = state.methods.filter((name) => name !== method.name);
        state.methods = input.checked ? [...others, method.name] : others;
        draw();
        root.querySelector(`input[value="${method.name}"]`)?.focus();
        if (state.methods.length) act.explain();
      });
      return el(
        "label",
        { class: method.slow ? "slow" : "", title: method.summary + (method.slow ? " Takes longer." : "") },
        input,
        el("span", { text: method.name }),
      );
    };
    const known = info.methods.filter(fits);
    const open = root.querySelector("details.more")?.open;
    const rest = known.filter((m) => !usual.has(m.name));
    const more = el(
      "details",
      { class: "more" },
      el("summary", { text: `${rest.length} more methods` }),
      el("div", { class: "chips" }, rest.map(chip)),
    );
    more.open = Boolean(open);
    return el(
      "fieldset",
      { class: "field" },
      el("legend", { text: "Methods" }),
      el(
        "div",
        { class: "chips" },
        [...usual]
          .map((name) => known.find((m) => m.name === name))
          .filter(Boolean)
          .map(chip),
      ),
      rest.length ? more : null,
    );
  }

  function targetField(kind) {
    const change = (key, value, run) => {
      state[key] = value;
      if (run) act.explain();
    };
    if (kind === "generation") {
      const input = (key, label, hint) => {
        const box = el("input", { type: "text", id: key, placeholder: hint });
        box.value = state[key];
        box.addEventListener("input", () => change(key, box.value, false));
        return el("div", { class: "field" }, el("label", { for: key, text: label }), box);
      };
      return el(
        "div",
        { class: "two" },
        input("target", "Token to explain", "the likeliest"),
        input("against", "rather than", "the next likeliest"),
      );
    }
    const select = (key, label, first) => {
      const box = el(
        "select",
        { id: key },
        el("option", { value: "", text: first }),
        model()
          .labels.slice(0, 1000)
          .map((l) => el("option", { value: l, text: l })),
      );
      box.value = state[key];
      box.addEventListener("change", () => change(key, box.value, true));
      return el("div", { class: "field" }, el("label", { for: key, text: label }), box);
    };
    return el(
      "div",
      { class: "two" },
      select("target", "Explain", "the prediction"),
      select("against", "rather than", "–"),
    );
  }

  function buttons() {
    go = el(
      "button",
      { type: "submit", class: "primary" },
      state.tab === "attention" ? "Look" : "Explain",
      el("kbd", { text: "Ctrl ↵" }),
    );
    return el("div", { class: "go" }, go);
  }

  function use(name) {
    Object.assign(state, {
      model: name,
      target: "",
      against: "",
      methods: state.methods.filter((n) => fits(info.methods.find((m) => m.name === n))),
    });
    if (!state.methods.length) state.methods = [...info.default_methods];
    const example = model().examples[0];
    if (model().kind === "image" ? !state.image && example : !state.text && example) return take(example);
    draw();
    return act.explain();
  }

  /** Take an example: a text as it is, an image from its address on this server. */
  function take(example) {
    Object.assign(state, model().kind === "image" ? { image: example } : { text: example });
    draw();
    act.explain();
  }

  root.addEventListener("submit", (event) => {
    event.preventDefault();
    act.explain();
  });
  draw();
  return { draw, use };
}
