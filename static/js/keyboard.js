// Keys that work anywhere on the page.

import { byId } from './dom.js';

/// keys: {stop() -> whether there was something to stop, cancelEdit(), editLast()}.
export function startKeyboard(composer, keys) {
  const box = byId('prompt');

  document.addEventListener('keydown', (event) => {
    if (event.isComposing || event.defaultPrevented || byId('settings').open) return;
    const { key } = event;
    const writing = event.target.matches('input, textarea');
    const control = event.ctrlKey || event.metaKey;
    if (key === 'Escape') {
      if (!keys.stop()) keys.cancelEdit();
    } else if ((key === '/' && !writing && !control) || (key.toLowerCase() === 'k' && control)) {
      event.preventDefault();
      composer.focus();
    } else if (key === 'ArrowUp' && event.target === box && box.value === '') {
      if (keys.editLast()) event.preventDefault();
    }
  });
}
