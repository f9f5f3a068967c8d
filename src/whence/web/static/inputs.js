// What is explained: the fields for a text, an image and a sound, and examples of them.
import { content } from "/static/files.js";
import { labelsOf, readsOf, sees, SIDES } from "/static/kinds.js";

import { post } from "/static/api.js";
import { debounced } from "/static/timing.js";

const whence = globalThis.whence;
const { el, say } = whence;

let playing = null; // {source, audio}: the player that is in the form

/**
 * The fields of a model. `act.file(file, side)` when one is opened, `act.take(example)`, `act.play(seconds)`, `act.typed()`
 * while somebody types, `act.labelled()` where it is a label.
 */
export function fields(model, info, state, act) {
  const made = { text, image, sound, labels };
  if (model.kind === "pair") return [side(0), side(1), examples()];
  return [...readsOf(model).map((name) => made[name]()), examples()];

  function text() {
    const count = el("span", { class: "count", role: "status" });
    const beside = model.kind === "image_text"; // a question: short, and under its image
    const area = el("textarea", {
      id: "text",
      class: beside ? "short" : null,
      dir: "auto",
      spellcheck: "false",
      placeholder: beside ? "Ask something about the image" : "Type a text, or drop one here",
    });
    area.value = state.text;
    const counted = debounced(200, () => measure(area, count));
    area.addEventListener("input", () => {
      state.text = area.value;
      counted();
      act.typed();
    });
    counted();
    const label = { generation: "Prompt", image_text: "Question" }[model.kind] ?? "Text";
    const under = el("div", { class: "under" }, count, picker("Open a file", "text/*,image/*,audio/*"));
    return el("div", { class: "field" }, el("label", { for: "text", text: label }), area, beside ? null : under);
  }

  /** Texts to choose from, one per line: there may be commas in them. */
  function labels() {
    const noun = model.texts === "choices" ? "choice" : "label";
    const count = el("span", { class: "count", role: "status" });
    const box = el("textarea", { id: "labels", class: "short", dir: "auto", spellcheck: "false", placeholder: "One per line" });
    box.value = state.labels.join("\n");
    const tell = () => {
      const found = labelsOf(state);
      const most = info.limits.labels;
      count.classList.toggle("over", found.length > most);
      count.replaceChildren(found.length > most ? `${found.length} ${noun}s; the limit is ${most}` : `${found.length || "No"} ${noun}${found.length === 1 ? "" : "s"}, one per line`);
      const split = found.length === 1 ? found[0].split(/\s*[,;]\s*/).filter(Boolean) : [];
      if (split.length < 2) return;
      count.append(" ", el("button", { type: "button", text: "Split at commas", on: { click: () => act.take({ labels: split }) } }));
    };
    box.addEventListener("input", () => {
      state.labels = box.value.split("\n");
      tell();
      act.labelled();
    });
    tell();
    const title = noun === "choice" ? "Choices" : "Labels to choose from";
    return el("div", { class: "field" }, el("label", { for: "labels", text: title }), box, el("div", { class: "under" }, count));
  }

  /** How many tokens the model sees, and an offer to cut what is too long. */
  async function measure(area, count, name = "text") {
    const amount = (n) => n.toLocaleString("en");
    if (!area.isConnected) return; // the form was drawn anew
    let found;
    try {
      found = await post(`tokens/${name}`, "/api/tokens", { model: model.name, text: area.value });
    } catch {
      return; // the explanation says what is wrong
    }
    if (!area.isConnected) return;
    const { tokens, limit, cut } = found;
    if (tokens === null) return void count.replaceChildren(`${amount(area.value.length)} characters`);
    count.replaceChildren(`${amount(tokens)} of ${amount(limit)} tokens`);
    count.classList.toggle("over", tokens > limit);
    if (tokens <= limit) return;
    const text = Array.from(area.value).slice(0, cut).join("");
    const click = () => act.take({ [name]: text });
    count.append(" ", el("button", { type: "button", text: `Use the first ${amount(limit)}`, on: { click } }));
  }

  /** One side of a pair: a text, or an image where the model takes one. */
  function side(n) {
    const sort = (sees(model) && state.sides?.[n]) || "text";
    const name = SIDES[n][sort];
    const title = sees(model) ? ["First", "Second"][n] : ["Text", "Other text"][n];
    const choice = sees(model)
      ? whence.choice(`${title} input`, [["text", "Text"], ["image", "Image"]], sort, (chosen) => act.turn(n, chosen))
      : null;
    const head = el("div", { class: "sidehead" }, sort === "text" ? el("label", { for: name, text: title }) : el("span", { text: title }), choice);
    const shown = sort === "text" ? area(name) : [pictured(state[name], `The ${title.toLowerCase()} image`), el("span", { text: "PNG, JPEG, WebP, GIF, BMP" })];
    const accept = sees(model) ? "text/*,image/*" : "text/*";
    const under = el("div", { class: "under" }, shown[1], picker("Open a file", accept, n));
    const named = sees(model) ? { role: "group", "aria-label": `${title} input` } : {};
    return el("div", { class: "field", ...named, data: { side: n } }, head, shown[0], under);
  }

  /** A text of a pair, and how many tokens it has. */
  function area(name) {
    const count = el("span", { class: "count", role: "status" });
    const placeholder = name === "text" ? "Type a text, or drop one here" : "Type the other text";
    const box = el("textarea", { id: name, class: "short", dir: "auto", spellcheck: "false", placeholder });
    box.value = state[name];
    const counted = debounced(200, () => measure(box, count, name));
    box.addEventListener("input", () => {
      state[name] = box.value;
      counted();
      act.typed();
    });
    counted();
    return [box, count];
  }

  function pictured(source, alt) {
    const shown = source ? el("img", { src: source, alt }) : el("p", { text: "Drop or paste an image" });
    return el("div", { class: "picture" }, shown);
  }

  function image() {
    return group("Image", pictured(state.image, "The image to explain"), "PNG, JPEG, WebP, GIF, BMP", "image/*");
  }

  function sound() {
    const shown = state.sound ? player(state.sound) : el("p", { text: "Drop a sound" });
    const most = `WAV, FLAC, OGG, MP3 up to ${info.limits.sound_seconds} s`;
    return group("Sound", el("div", { class: "picture" }, shown), most, "audio/*,.flac");
  }

  /** The sound itself; where it is at is marked in its explanations. The form is drawn anew, and it goes on playing. */
  function player(source) {
    if (playing?.source === source) return playing.audio;
    const audio = el("audio", { controls: true, "aria-label": "The sound to explain" });
    // as data: in what comes from an address browsers only find a moment again if the server sends it in pieces
    content(source).then(
      (data) => (audio.src = data),
      () => say("The sound could not be fetched."),
    );
    const follow = () => {
      act.play(audio.currentTime);
      if (!audio.paused) requestAnimationFrame(follow); // "timeupdate" comes four times a second
    };
    audio.addEventListener("play", follow);
    audio.addEventListener("seeked", follow);
    audio.addEventListener("ended", () => act.play(null));
    playing = { source, audio };
    return audio;
  }

  function group(label, shown, formats, accept) {
    const under = el("div", { class: "under" }, el("span", { text: formats }), picker("Open a file", accept));
    return el(
      "div",
      { class: "field", role: "group", "aria-label": label },
      el("span", { text: label }),
      shown,
      under,
    );
  }

  function picker(label, accept, n = null) {
    const input = el("input", {
      type: "file",
      accept,
      class: "w-unseen",
      tabindex: -1,
      "aria-label": label,
      "aria-hidden": "true",
    });
    input.addEventListener("change", () => input.files[0] && act.file(input.files[0], n));
    return el("span", {}, input, el("button", { type: "button", text: label, on: { click: () => input.click() } }));
  }

  function examples() {
    if (!model.examples.length) return null;
    const picture = (source, alt) => (source ? el("img", { src: source, alt }) : null);
    const buttons = model.examples.map((example, n) => {
      let said = example.text ?? (example.sound ? example.sound.replace(/.*\/|\.\w+$/g, "") : null);
      if (model.chooses && !said) said = example.labels.join(", ");
      const name = model.kind === "pair" ? [said, example.pair].filter(Boolean).join(" × ") || null : said;
      const thumbs = [picture(example.image, name ? "" : `Example ${n + 1}`), picture(example.pair_image, "")];
      return el("button", { type: "button", title: name, on: { click: () => act.take(example) } }, thumbs, name);
    });
    return el("div", { class: "examples", role: "group", "aria-label": "Examples" }, buttons);
  }
}
