// Talking to the server: errors carry what to do, and a new request of a kind ends the one before it.

/** An answer that was not a success: `message` says what was wrong, `hint` what to do, `wait` how many seconds. */
export class Refused extends Error {
  constructor(
    status,
    { code = "failed", message = "The server did not answer as expected.", hint = "" } = {},
    wait = null,
  ) {
    super(message);
    Object.assign(this, { status, code, hint, wait });
  }
}

const running = new Map();

/** End what is under way: of this kind and of its parts, as in "attention" and "attention/3". */
export function cancel(kind) {
  for (const [name, controller] of running) {
    if (name !== kind && !name.startsWith(`${kind}/`)) continue;
    controller.abort();
    running.delete(name);
  }
}

const lost = () =>
  new Refused(0, {
    code: "offline",
    message: "The server can't be reached.",
    hint: "See whether `whence serve` still runs, then try again.",
  });

async function ask(kind, path, options = {}) {
  cancel(kind);
  const controller = new AbortController();
  running.set(kind, controller);
  let answer;
  try {
    answer = await fetch(path, { ...options, signal: controller.signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw lost();
  } finally {
    if (running.get(kind) === controller && !answer) running.delete(kind);
  }
  if (!answer.ok) {
    const body = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, body.error, Number(answer.headers.get("Retry-After")) || null);
  }
  return answer;
}

const sent = (body) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

export const get = async (kind, path) => (await ask(kind, path)).json();
export const post = async (kind, path, body) => (await ask(kind, path, sent(body))).json();

/** An answer in lines of JSON: `hear(event)` gets each as it comes; an error among them is thrown. */
export async function stream(kind, path, body, hear) {
  const answer = await ask(kind, path, sent(body));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : lost();
    });
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const event = JSON.parse(line);
      if (event.event === "error") throw new Refused(event.error.code === "too_slow" ? 504 : 500, event.error);
      hear(event);
    }
  }
}

/** A file as {name, blob}. */
export async function file(kind, path, body) {
  const answer = await ask(kind, path, sent(body));
  const name = /filename="?([^";]+)"?/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1];
  return { name: name ?? `whence.${body.format}`, blob: await answer.blob() };
}

export const stopped = (error) => error.name === "AbortError";
