// The empty page: what one talks to, and how one may begin.

import { byId, el, icon } from './dom.js';

const kSuggestions = [
  'Tell me a story about a cat and a boat.',
  'Write a story with the words moon, shoe and frog.',
  'Who are you?',
];

export function startWelcome(suggest) {
  byId('suggestions').replaceChildren(...kSuggestions.map((text) => el('li', {},
    el('button', { type: 'button', onclick: () => suggest(text) }, el('span', { text }), icon('up')))));
}

export function showModel({ model }) {
  const name = byId('model-name');
  name.textContent = name.title = String(model ?? '');
  byId('welcome-model').textContent = `You are talking to ${model}, running on this server. `;
}
