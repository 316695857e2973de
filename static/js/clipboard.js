// Copying, also on pages without https, where the clipboard interface is missing.

import { el, icon } from './dom.js';

export async function copyText(text, button) {
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copied = copyBySelection(text);
    button.focus();
  }
  const before = [...button.childNodes];
  if (button.dataset.busy) return;
  button.dataset.busy = 'true';
  button.replaceChildren(icon(copied ? 'check' : 'alert'), el('span', { text: copied ? 'Copied' : 'Not copied' }));
  setTimeout(() => {
    button.replaceChildren(...before);
    delete button.dataset.busy;
  }, 1600);
}

function copyBySelection(text) {
  const area = el('textarea', { class: 'unseen' });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  return copied;
}
