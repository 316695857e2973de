// Keys that work anywhere on the page.

import { byId } from './dom.js';

/// keys: {stop() -> whether there was something to stop, cancelEdit(), editLast()}.
export function startKeyboard(composer, keys) {
  const box = byId('prompt');
  const scroller = byId('scroller');

  document.addEventListener('keydown', (event) => {
    if (event.isComposing || event.defaultPrevented || byId('settings').open) return;
    const { key } = event;
    const writing = event.target.matches('input, textarea');
    if (key === 'Escape') {
      if (!keys.stop()) keys.cancelEdit();
    } else if (key === '/' && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      composer.focus();
    } else if (key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      composer.focus();
    } else if (key === 'ArrowUp' && event.target === box && box.value === '') {
      if (keys.editLast()) event.preventDefault();
    } else if ((key === 'PageUp' || key === 'PageDown') && event.target === box) {
      event.preventDefault();
      scroller.scrollBy({ top: (key === 'PageUp' ? -0.85 : 0.85) * scroller.clientHeight });
    }
  });
}
