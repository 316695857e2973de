// The settings drawer: builds its fields and keeps them and the settings in step.

import { byId, el } from './dom.js';
import { kNumbers, parseNumber, parseStops } from './settings.js';

export class SettingsForm {
  #settings;
  #hello = {};
  #dialog = byId('settings');

  constructor(settings) {
    this.#settings = settings;
    byId('open-settings').addEventListener('click', () => this.open());
    byId('close-settings').addEventListener('click', () => this.#dialog.close());
    byId('reset-settings').addEventListener('click', () => {
      settings.resetNumbers();
      this.#build();
    });
    this.#dialog.addEventListener('click', ({ target }) => {
      if (target === this.#dialog) this.#dialog.close();
    });
  }

  setHello(hello) {
    this.#hello = hello;
    if (this.#dialog.open) this.#build();
  }

  open() {
    this.#build();
    this.#dialog.showModal();
  }

  #build() {
    const fields = byId('settings-fields');
    const numbers = kNumbers.map((field) => this.#number(field));
    fields.replaceChildren(
      el('h3', { text: 'Conversation' }),
      this.#text('system', 'System prompt', 'Said to the model before everything else.', 'e.g. You tell short, cheerful stories.'),
      this.#switch('makeRoom', 'Forget without asking', 'When the context is full, leave out the oldest turns.'),
      el('h3', { text: 'Sampling' }), ...numbers.slice(0, 4),
      el('h3', { text: 'Length and repeatability' }), ...numbers.slice(4),
      this.#text('stop', 'Stop strings', 'One a line; \\n is a line break. The answer ends before the first that appears.', 'Human:', 'code'));
  }

  #number(field) {
    const id = `set-${field.key}`;
    const standard = field.standard(this.#hello);
    const value = this.#settings[field.key];
    const { wrong, report } = problem(id);
    const input = el('input', {
      id, type: 'text', class: field.long && 'long', inputmode: field.whole ? 'numeric' : 'decimal',
      autocomplete: 'off', placeholder: standard ?? '', 'aria-describedby': `${id}-hint ${id}-wrong`,
    });
    input.value = value ?? '';
    const slider = field.step ? el('input', {
      type: 'range', min: field.min, max: field.max, step: field.step, 'aria-label': field.label,
    }) : null;
    const drawSlider = () => { if (slider) slider.value = this.#settings[field.key] ?? standard ?? field.min; };
    input.addEventListener('input', () => {
      const parsed = parseNumber(field, input.value);
      report(input, parsed.wrong);
      this.#settings.set(field.key, parsed.value);
      drawSlider();
    });
    slider?.addEventListener('input', () => {
      input.value = slider.value;
      report(input, '');
      this.#settings.set(field.key, Number(slider.value));
    });
    drawSlider();
    return el('div', { class: 'field' }, el('label', { for: id, text: field.label }), input, slider,
      el('p', { class: 'hint', id: `${id}-hint`, text: field.hint }), wrong);
  }

  #text(key, label, hint, placeholder, classes = '') {
    const id = `set-${key}`;
    const { wrong, report } = problem(id);
    const area = el('textarea', { id, class: classes, placeholder, 'aria-describedby': `${id}-hint ${id}-wrong` });
    area.value = this.#settings[key];
    area.addEventListener('input', () => {
      if (key === 'stop') report(area, parseStops(area.value).wrong);
      this.#settings.set(key, area.value);
    });
    return el('div', { class: 'field' }, el('label', { for: id, text: label }), area,
      el('p', { class: 'hint', id: `${id}-hint`, text: hint }), wrong);
  }

  #switch(key, label, hint) {
    const id = `set-${key}`;
    const input = el('input', { id, type: 'checkbox', 'aria-describedby': `${id}-hint` });
    input.checked = this.#settings[key];
    input.addEventListener('change', () => this.#settings.set(key, input.checked));
    return el('div', { class: 'field' }, el('label', { for: id, text: label }), input,
      el('p', { class: 'hint', id: `${id}-hint`, text: hint }));
  }
}

/// A place for one sentence about a field, and how to fill it.
function problem(id) {
  const wrong = el('p', { class: 'wrong', id: `${id}-wrong`, role: 'status' });
  const report = (input, sentence) => {
    wrong.textContent = sentence;
    if (sentence) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  };
  return { wrong, report };
}
