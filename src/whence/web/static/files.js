// Files that people bring: read, and given to a model that can take them.

/** A file as a data URL. */
function data(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result));
    reader.addEventListener("error", () => failed(reader.error));
    reader.readAsDataURL(blob);
  });
}

/** Images go as data: an example is fetched from this server first. */
export async function pixels(source) {
  return source.startsWith("data:") ? source : data(await (await fetch(source)).blob());
}

const amount = (count) => count.toLocaleString("en");

/** Put a file's content into `state`; returns the model to use, or throws what is wrong and what to do. */
export async function take(file, info, state) {
  const isImage = file.type.startsWith("image/");
  const reads = (model) => (model.kind === "image") === isImage;
  const { limits, models } = info;
  const able = models.find((model) => model.name === state.model && reads(model)) ?? models.find(reads);
  if (!able) {
    const what = isImage ? "images" : "texts";
    throw { message: `No model here reads ${what}.`, hint: "Start the server with one: whence serve MODEL." };
  }
  if (isImage && file.size > limits.image_bytes) {
    const message = `The image has ${amount(file.size)} bytes; the limit is ${amount(limits.image_bytes)}.`;
    throw { message, hint: "Make it smaller." };
  }
  // a character takes up to four bytes
  if (!isImage && file.size > 4 * limits.characters) {
    const message = `The file has ${amount(file.size)} bytes; the limit is ${amount(limits.characters)} characters.`;
    throw { message, hint: "Choose a part of it." };
  }
  if (isImage) state.image = await data(file);
  else state.text = await file.text();
  return able.name;
}
