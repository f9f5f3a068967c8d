// Files that people bring: read, and given to a model that can take them.
import { READS } from "/static/kinds.js";

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

/** The model for a file and what it is given; or throws what is wrong and what to do. */
export async function take(file, info, state) {
  const sort = sortOf(file);
  const reads = (model) => READS[model.kind].includes(sort);
  const { limits, models } = info;
  const able = models.find((model) => model.name === state.model && reads(model)) ?? models.find(reads);
  if (!able) throw { message: `No model here reads ${sort}s.`, hint: "Start the server with one: whence serve MODEL." };
  // a character takes up to four bytes
  const most = { image: limits.image_bytes, sound: limits.sound_bytes, text: 4 * limits.characters }[sort];
  if (file.size > most) {
    const limit = sort === "text" ? `${amount(limits.characters)} characters` : amount(most);
    const message = `The ${sort === "text" ? "file" : sort} has ${amount(file.size)} bytes; the limit is ${limit}.`;
    throw { message, hint: sort === "image" ? "Make it smaller." : "Choose a part of it." };
  }
  if (sort === "text") return { model: able.name, given: { text: await file.text() } };
  const url = await data(file);
  // a sound without a type would not be played
  return { model: able.name, given: { [sort]: sort === "sound" ? url.replace(/^data:[^;,]*/, typed(file)) : url } };
}

function typed(file) {
  const ending = file.name.split(".").pop().toLowerCase();
  return `data:${file.type.startsWith("audio/") ? file.type : `audio/${ending === "mp3" ? "mpeg" : ending}`}`;
}
