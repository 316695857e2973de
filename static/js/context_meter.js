// How much of the model's context the conversation takes.

import { byId } from './dom.js';

const kHigh = 0.8;

export function showContext(used, size) {
  const meter = byId('context-meter');
  byId('context').hidden = !(size > 0);
  if (!(size > 0)) return;
  const shown = Math.min(used, size);
  byId('context-text').textContent = `Context ${shown} of ${size}`;
  meter.setAttribute('aria-valuemax', size);
  meter.setAttribute('aria-valuenow', shown);
  meter.setAttribute('aria-valuetext', `${shown} of ${size} tokens`);
  meter.classList.toggle('high', used / size >= kHigh);
  meter.firstElementChild.style.transform = `scaleX(${shown / size})`;
}
