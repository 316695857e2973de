// Light or dark: as the system says, until the user asks for the other one.

import { byId } from './dom.js';

const root = document.documentElement;
const system = matchMedia('(prefers-color-scheme: dark)');

export function startTheme() {
  byId('toggle-theme').addEventListener('click', () => choose(isDark() ? 'light' : 'dark'));
  system.addEventListener('change', draw);
  draw();
}

function isDark() {
  return root.dataset.theme ? root.dataset.theme === 'dark' : system.matches;
}

/// What the system says anyway is not remembered, so that the page follows it again.
function choose(theme) {
  const own = (theme === 'dark') !== system.matches;
  if (own) root.dataset.theme = theme;
  else delete root.dataset.theme;
  try {
    if (own) localStorage.setItem('sluice.theme', theme);
    else localStorage.removeItem('sluice.theme');
  } catch { /* for this visit only */ }
  draw();
}

function draw() {
  byId('toggle-theme').setAttribute('aria-pressed', isDark());
  byId('theme-colour').content = getComputedStyle(document.body).backgroundColor;
}
