// The empty page: what one talks to, and how one may begin.

import { byId, el, icon } from './dom.js';

const kSuggestions = [
  'Tell me a story about a cat and a boat.',
  'Write a story with the words moon, shoe and frog.',
  'Who are you?',
];

export function showWelcome(hello, suggest) {
  const model = String(hello?.model ?? '');
  byId('model-name').textContent = model;
  byId('model-name').title = model;
  byId('welcome-lead').textContent = model
    ? `You are talking to ${model}, running on this server. Every word appears the moment the model draws it.`
    : 'Every word appears the moment the model draws it.';
  byId('suggestions').replaceChildren(...kSuggestions.map((text) => el('li', {},
    el('button', { type: 'button', onclick: () => suggest(text) }, el('span', { text }), icon('up')))));
}
