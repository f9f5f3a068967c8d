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

async function ask(kind, path, options = {}) {
  cancel(kind);
  const controller = new AbortController();
  running.set(kind, controller);
  let answer;
  try {
    answer = await fetch(path, { ...options, signal: controller.signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, {
      code: "offline",
      message: "The server can't be reached.",
      hint: "See whether `whence serve` still runs, then try again.",
    });
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

/** A file as {name, blob}. */
export async function file(kind, path, body) {
  const answer = await ask(kind, path, sent(body));
  const name = /filename="?([^";]+)"?/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1];
  return { name: name ?? `whence.${body.format}`, blob: await answer.blob() };
}

export const stopped = (error) => error.name === "AbortError";
