// Waiting until somebody has finished.

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
