// Keys that work anywhere on the page.

import { byId } from './dom.js';

/// keys: {stop() -> whether there was something to stop, togglePause(), cancelEdit(), editLast()}.
export function startKeyboard(composer, keys) {
  const box = byId('prompt');

  document.addEventListener('keydown', (event) => {
    if (event.isComposing || event.defaultPrevented || byId('settings').open) return;
    const { key } = event;
    const writing = event.target.matches('input, textarea');
    const control = event.ctrlKey || event.metaKey;
    if (key === 'Escape') {
      if (!keys.stop()) keys.cancelEdit();
    } else if (event.altKey && event.code === 'KeyP') {
      if (keys.togglePause()) event.preventDefault();
    } else if ((key === '/' && !writing && !control) || (key.toLowerCase() === 'k' && control)) {
      event.preventDefault();
      composer.focus();
    } else if (key === 'ArrowUp' && event.target === box && box.value === '') {
      if (keys.editLast()) event.preventDefault();
    }
  });
}
