// Keys that work anywhere on the page.

import { byId } from './dom.js';

export function startKeyboard(composer, chat) {
  const box = byId('prompt');

  document.addEventListener('keydown', (event) => {
    if (event.isComposing || event.defaultPrevented || byId('settings').open) return;
    const { key } = event;
    const writing = event.target.matches('input, textarea');
    const control = event.ctrlKey || event.metaKey;
    if (key === 'Escape') {
      if (!chat.stop()) chat.cancelEdit();
    } else if (event.altKey && event.code === 'KeyP') {
      if (chat.togglePause()) event.preventDefault();
    } else if ((key === '/' && !writing && !control) || (key.toLowerCase() === 'k' && control)) {
      event.preventDefault();
      composer.focus();
    } else if (key === 'ArrowUp' && event.target === box && box.value === '') {
      if (chat.edit()) event.preventDefault();
    }
  });
}
