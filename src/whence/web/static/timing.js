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
