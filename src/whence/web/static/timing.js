// Waiting until somebody has finished, and how long it took.

/** Seconds for people. */
export const duration = (seconds) => (seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${seconds.toFixed(1)} s`);

/** `act`, called once nobody has called it for so many milliseconds; `.now()` does not wait, `.cancel()` forgets it. */
export function debounced(wait, act) {
  let timer = null;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), wait);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/**
 * `draw`, put off while a button or the space bar is down in `root`: what is taken out and put in again between press
 * and release is not clicked.
 */
export function unpressed(root, draw) {
  let pressed = false;
  let due = false;
  const released = () => {
    pressed = false;
    if (due) setTimeout(() => pressed || again()); // after the click
  };
  function again() {
    due = pressed;
    if (!pressed) draw();
  }
  root.addEventListener("pointerdown", (event) => (pressed = event.button === 0));
  root.addEventListener("keydown", (event) => event.key === " " && (pressed = true));
  for (const end of ["pointerup", "pointercancel", "keyup", "blur"]) addEventListener(end, released);
  return again;
}
