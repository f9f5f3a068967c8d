// The lines of Python that make what is shown.

/** A string as Python writes it; JSON is valid Python but for what lies beyond the BMP, which json leaves as it is. */
const quoted = (text) => JSON.stringify(text);

/** A classifier of entailment does this only where it is told to. */
const TRIED = "zero-shot-classification";

/** What labels are chosen for, by the name that Python has for it. */
function chosenFor({ text, image }) {
  if (text !== undefined) return `"text": ${quoted(text)}`;
  return image ? `"image": ${quoted(NAMES.image)}` : `"audio": ${quoted(NAMES.sound)}`;
}

const NAMES = { image: "image.png", sound: "sound.wav" };

/** `request`: what was sent to the server; `shown`: {target, methods} that are looked at; `model`: what /api/info says of it. */
export function python(request, { targets, methods }, model) {
  const target = (one) =>
    one === null || one === undefined ? null : typeof one === "object" ? `whence.contrast(${quoted(one.this)}, ${quoted(one.that)})` : quoted(one);
  const file = (name) => `${quoted(NAMES[name])}`;
  const input = request.labels
    ? `{${chosenFor(request)}, "${model.chooses.texts}": ${model.chooses.texts}}`
    : request.image && request.text
      ? `{"image": ${file("image")}, "text": ${quoted(request.text)}}`
      : request.image
        ? file("image")
        : request.sound
          ? file("sound")
          : request.pair
            ? `(${quoted(request.text)}, ${quoted(request.pair)})`
            : quoted(request.text);
  const asked = target(targets?.[0]);
  const more = asked ? `, target=${asked}` : "";
  const listed = `[${methods.map(quoted).join(", ")}]`;
  const task = model.task === TRIED ? `, task=${quoted(TRIED)}` : "";
  const lines = ["import whence", "", `model = whence.load(${quoted(request.model)}${task})`];
  if (request.labels) lines.push(`${model.chooses.texts} = [${request.labels.map(quoted).join(", ")}]`);
  const own = request.image || request.sound ? "  # your file" : "";
  if (methods.length === 1) {
    lines.push(`exp = whence.explain(model, ${input}, method=${quoted(methods[0])}${more})${own}`, "print(exp.verdict)", 'exp.save("explained.html")');
  } else {
    lines.push(`found = whence.compare(model, ${input}, methods=${listed}${more})${own}`, "print(found[0].verdict)", 'found.save("compared.html")');
  }
  return `${lines.join("\n")}\n`;
}

/** Two inputs that are compared; `request`: what was sent to the server. */
export function pythonPair({ model, text, image, pair, method, measure }) {
  const side = (said, name) => (said === undefined ? `{"image": ${quoted(name)}}` : quoted(said));
  const own = text === undefined || pair === undefined ? "  # your files" : "";
  const lines = [
    "import whence",
    "",
    "pair = whence.similarity(",
    `    ${quoted(model)},`,
    `    ${side(text, "first.png")},${text === undefined ? own : ""}`,
    `    ${side(pair, "second.png")},${text === undefined ? "" : own}`,
    `    method=${quoted(method)},`,
    ...(measure ? [`    measure=${quoted(measure)},`] : []),
    ")",
    "print(pair.score, pair.top(3))",
    'pair.save("pair.html")',
  ];
  return `${lines.join("\n")}\n`;
}

/** What a language model went on with, or answered. */
export function pythonWritten({ model, text, messages, generate, method }) {
  const said = (messages ?? []).map(({ role, content }) => `    {"role": ${quoted(role)}, "content": ${quoted(content)}},\n`);
  const chat = messages ? `messages = [\n${said.join("")}]\n` : "";
  return `import whence

llm = whence.load(${quoted(model)})
${chat}trace = whence.explain(llm, ${messages ? "messages" : quoted(text)}, method=${quoted(method)}, generate=${generate})
print(trace.text, trace.whole.top(3))
trace.save("trace.html")
`;
}

/** An answer from documents. */
export function pythonCited({ model, question, documents, generate, method }) {
  return `import whence

llm = whence.load(${quoted(model)})
documents = [
${documents.map((text) => `    ${quoted(text)},\n`).join("")}]
cited = whence.cite(llm, ${quoted(question)}, documents, method=${quoted(method)}, generate=${generate})
print(cited.answer, cited.documents)
cited.save("cited.html")
`;
}
