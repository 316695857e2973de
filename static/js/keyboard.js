// Keys that work anywhere on the page.

import { byId } from './dom.js';

export function startKeyboard(composer, chat) {
  const box = byId('prompt');

  document.addEventListener('keydown', (event) => {
    if (event.isComposing || event.defaultPrevented || byId('settings').open) return;
    const { key } = event;
    if (key === 'Escape') {
      if (!chat.stop()) chat.cancelEdit();
    } else if (event.altKey && event.code === 'KeyP') {
      if (chat.togglePause()) event.preventDefault();
    } else if (key === '/' && !event.target.matches('input, textarea')) {
      event.preventDefault();
      composer.focus();
    } else if (key === 'ArrowUp' && event.target === box && box.value === '') {
      if (chat.edit()) event.preventDefault();
    }
  });
}
