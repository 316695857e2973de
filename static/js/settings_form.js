// The settings drawer: builds its fields and keeps them and the settings in step.

import { byId, el } from './dom.js';
import { kNumbers, parseStops, standardOf } from './settings.js';

export class SettingsForm {
  #settings;
  #hello = {};
  #dialog = byId('settings');

  constructor(settings) {
    this.#settings = settings;
    byId('open-settings').addEventListener('click', () => {
      this.#build();
      this.#dialog.showModal();
    });
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

  #build() {
    const numbers = kNumbers.map((field) => this.#number(field));
    byId('settings-fields').replaceChildren(
      el('h3', { text: 'Conversation' }),
      this.#text('system', 'System prompt', 'Said to the model before everything else.', 'e.g. You tell short, cheerful stories.'),
      this.#switch('makeRoom', 'Forget without asking', 'When the context is full, leave out the oldest turns.'),
      el('h3', { text: 'Sampling' }), ...numbers.slice(0, 4),
      el('h3', { text: 'Length and repeatability' }), ...numbers.slice(4),
      this.#text('stop', 'Stop strings', 'One a line; \\n is a line break. The answer ends before the first that appears.', 'Human:', 'code'));
  }

  #number({ key, label, hint, min, max, step, long }) {
    const input = el('input', { type: 'number', min, max, step, class: long && 'long', placeholder: standardOf(key, this.#hello) });
    input.value = this.#settings[key] ?? '';
    return this.#field(key, label, hint, input, () => {
      const valid = input.validity.valid && input.value !== '';
      this.#settings.set(key, valid ? input.valueAsNumber : null);
      return input.validationMessage;
    });
  }

  #text(key, label, hint, placeholder, classes) {
    const area = el('textarea', { class: classes, placeholder });
    area.value = this.#settings[key];
    return this.#field(key, label, hint, area, () => {
      this.#settings.set(key, area.value);
      return key === 'stop' ? parseStops(area.value).wrong : '';
    });
  }

  #switch(key, label, hint) {
    const input = el('input', { type: 'checkbox' });
    input.checked = this.#settings[key];
    return this.#field(key, label, hint, input, () => {
      this.#settings.set(key, input.checked);
      return '';
    });
  }

  /// `take` stores what stands in the control, and returns what is wrong with it or ''.
  #field(key, label, hint, control, take) {
    const id = control.id = `set-${key}`;
    const wrong = el('p', { class: 'wrong', id: `${id}-wrong`, role: 'status' });
    control.setAttribute('aria-describedby', `${id}-hint ${id}-wrong`);
    control.addEventListener('input', () => {
      wrong.textContent = take();
      control.setAttribute('aria-invalid', wrong.textContent !== '');
    });
    return el('div', { class: 'field' }, el('label', { for: id, text: label }), control,
      el('p', { class: 'hint', id: `${id}-hint`, text: hint }), wrong);
  }
}
