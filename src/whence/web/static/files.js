// Files that people bring: read, and given to a model that can take them.
import { posed, SIDES, takes } from "/static/kinds.js";

/** A file as a data URL. */
function data(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result));
    reader.addEventListener("error", () => failed(reader.error));
    reader.readAsDataURL(blob);
  });
}

/** Images and sounds go as data: an example is fetched from this server first. */
export async function content(source) {
  return source.startsWith("data:") ? source : data(await (await fetch(source)).blob());
}

const amount = (count) => count.toLocaleString("en");

/** What a file is: browsers do not know every sound by its type. */
function sortOf(file) {
  if (file.type.startsWith("image/")) return "image";
  return file.type.startsWith("audio/") || /\.(wav|flac|ogg|mp3)$/i.test(file.name) ? "sound" : "text";
}

/**
 * The model for a file and what it is given; or throws what is wrong and what to do. `side` of a pair is 0 or 1 where
 * somebody chose one.
 */
export async function take(file, info, state, side = null) {
  const sort = sortOf(file);
  const reads = (model) => takes(model, sort);
  const { limits } = info;
  const models = info.models.map((model) => posed(model, model.name === state.model ? state : { choosing: false, labels: [] }));
  const able = models.find((model) => model.name === state.model && reads(model)) ?? models.find(reads);
  if (!able) throw { message: `No model here reads ${sort}s.`, hint: "Start the server with one: whence serve MODEL." };
  // a character takes up to four bytes
  const most = { image: limits.image_bytes, sound: limits.sound_bytes, text: 4 * limits.characters }[sort];
  if (file.size > most) {
    const limit = sort === "text" ? `${amount(limits.characters)} characters` : amount(most);
    const message = `The ${sort === "text" ? "file" : sort} has ${amount(file.size)} bytes; the limit is ${limit}.`;
    throw { message, hint: sort === "image" ? "Make it smaller." : "Choose a part of it." };
  }
  const content = sort === "text" ? await file.text() : await data(file);
  if (able.kind === "pair") return { model: able.name, given: sided(able, sort, content, state, side) };
  // a sound without a type would not be played
  return { model: able.name, given: { [sort]: sort === "sound" ? content.replace(/^data:[^;,]*/, typed(file)) : content } };
}

/** A file as one side of a pair: the one that was chosen, else the first that waits for such a file, or has one. */
function sided(model, sort, content, state, side) {
  const sides = (state.model === model.name && state.sides) || ["text", "text"];
  const own = SIDES.map((names, n) => n).filter((n) => sides[n] === sort);
  const n = side ?? own.find((m) => !state[SIDES[m][sort]]?.trim()) ?? own[0] ?? 0;
  const next = model.sides.includes("image") ? { sides: sides.map((was, m) => (m === n ? sort : was)) } : {};
  return { [SIDES[n][sort]]: content, ...next };
}

function typed(file) {
  const ending = file.name.split(".").pop().toLowerCase();
  return `data:${file.type.startsWith("audio/") ? file.type : `audio/${ending === "mp3" ? "mpeg" : ending}`}`;
}
