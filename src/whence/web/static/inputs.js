// What is explained: the fields for a text, an image and a sound, and examples of them.
import { content } from "/static/files.js";
import { READS } from "/static/kinds.js";

import { post } from "/static/api.js";
import { debounced } from "/static/timing.js";

const { el, say } = globalThis.whence;

/**
 * The fields of a model. `act.file(file)` when one is opened, `act.take(example)`, `act.play(seconds)`, `act.typed()`
 * while somebody types.
 */
export function fields(model, info, state, act) {
  const made = { text, pair, image, sound };
  return [...READS[model.kind].map((name) => made[name]()), examples()];

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

  /** How many tokens the model sees, and an offer to cut what is too long. */
  async function measure(area, count) {
    const amount = (n) => n.toLocaleString("en");
    let found;
    try {
      found = await post("tokens", "/api/tokens", { model: model.name, text: area.value });
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
    const click = () => act.take({ text });
    count.append(" ", el("button", { type: "button", text: `Use the first ${amount(limit)}`, on: { click } }));
  }

  function pair() {
    const area = el("textarea", { id: "pair", class: "short", dir: "auto", spellcheck: "false", placeholder: "Type the other text" });
    area.value = state.pair;
    area.addEventListener("input", () => {
      state.pair = area.value;
      act.typed();
    });
    return el("div", { class: "field" }, el("label", { for: "pair", text: "Other text" }), area);
  }

  function image() {
    const shown = state.image
      ? el("img", { src: state.image, alt: "The image to explain" })
      : el("p", { text: "Drop or paste an image" });
    return group("Image", el("div", { class: "picture" }, shown), "PNG, JPEG, WebP, GIF, BMP", "image/*");
  }

  function sound() {
    const shown = state.sound ? player(state.sound) : el("p", { text: "Drop a sound" });
    const most = `WAV, FLAC, OGG, MP3 up to ${info.limits.sound_seconds} s`;
    return group("Sound", el("div", { class: "picture" }, shown), most, "audio/*,.flac");
  }

  /** The sound itself; where it is at is marked in its explanations. */
  function player(source) {
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

  function examples() {
    if (!model.examples.length) return null;
    const buttons = model.examples.map((example, n) => {
      const name = example.text ?? (example.sound ? example.sound.replace(/.*\/|\.\w+$/g, "") : null);
      const thumb = example.image ? el("img", { src: example.image, alt: name ? "" : `Example ${n + 1}` }) : null;
      return el("button", { type: "button", title: name, on: { click: () => act.take(example) } }, thumb, name);
    });
    return el("div", { class: "examples", role: "group", "aria-label": "Examples" }, buttons);
  }
}
