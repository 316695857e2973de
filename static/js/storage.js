// Browser storage that may be full, closed or hold anything: reading gives a fallback then.

export function load(area, key, fallback) {
  try {
    const value = JSON.parse(area().getItem(`sluice.${key}`));
    return value ?? fallback;
  } catch {
    return fallback;
  }
}

export function save(area, key, value) {
  try {
    if (value === null || value === undefined) area().removeItem(`sluice.${key}`);
    else area().setItem(`sluice.${key}`, JSON.stringify(value));
  } catch { /* nothing is remembered then; everything else works */ }
}

export const browser = () => localStorage;  // remembered
export const tab = () => sessionStorage;    // survives a reload of this tab
