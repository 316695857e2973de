// Light or dark: the system's choice until the user makes one.

import { byId } from './dom.js';

const kColours = { light: '#f5f7f6', dark: '#0d1413' };
const system = matchMedia('(prefers-color-scheme: dark)');

/// 'system', 'light' or 'dark'.
export function chosenTheme() {
  return document.documentElement.dataset.theme ?? 'system';
}

export function chooseTheme(theme) {
  const fixed = theme === 'light' || theme === 'dark';
  if (fixed) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    if (fixed) localStorage.setItem('sluice.theme', theme);
    else localStorage.removeItem('sluice.theme');
  } catch { /* for this visit only */ }
  draw();
}

export function startTheme() {
  byId('toggle-theme').addEventListener('click', () => chooseTheme(isDark() ? 'light' : 'dark'));
  system.addEventListener('change', draw);
  draw();
}

function isDark() {
  const chosen = chosenTheme();
  return chosen === 'system' ? system.matches : chosen === 'dark';
}

function draw() {
  byId('toggle-theme').setAttribute('aria-pressed', isDark());
  for (const meta of document.querySelectorAll('meta[name="theme-color"]')) {
    const own = meta.media.includes('dark') ? 'dark' : 'light';
    meta.content = kColours[chosenTheme() === 'system' ? own : chosenTheme()];
  }
}
