// What the user has set, and the drawer for it. An empty number means: as the server does by
// default (see `hello`).

import { h, load, save, ui } from './dom.js';

const kFields = {  // name: [label, hint, kind, and of numbers the least, the greatest and the step]
	system: ['System prompt', 'Said to the model first.', 'text'],
	markdown: ['Markdown', 'Headings, lists and code as such.', 'checkbox'],
	temperature: ['Temperature', 'Low is steady, high is daring; 0 takes the likeliest token.', 'number', 0, 10, 0.01],
	top_p: ['Top-p', 'Draw from the likeliest tokens that make up this probability.', 'number', 0.01, 1, 0.01],
	top_k: ['Top-k', 'Draw from the k likeliest tokens; 0 is off.', 'number', 0, 1e6, 1],
	min_p: ['Min-p', 'Leave out tokens below this share of the best.', 'number', 0, 1, 0.01],
	max_tokens: ['Longest answer', 'In tokens.', 'number', 1, 1e6, 1],
	seed: ['Seed', 'The same seed draws the same answer.', 'number', 0, Number.MAX_SAFE_INTEGER, 1],
	stop: ['Stop strings', 'One a line; \\n is a line break.', 'text'],
	key: ['Key', 'If the server asks for one.', 'password'],
};

export const settings = { system: '', markdown: true, stop: '', key: '' };
/// Called when a setting has changed that concerns the look of answers; when there is another key.
export const on = { look() {}, key() {} };

const stored = load('settings', {});
for (const [key, [, , kind, min, max]] of Object.entries(kFields)) {
	const value = stored[key];
	if (kind === 'number' ? typeof value === 'number' && value >= min && value <= max : typeof value === typeof settings[key]) settings[key] = value;
}

/// What may be sent of what was entered as the key.
export const apiKey = () => settings.key.match(/[\w-]{20,}/)?.[0] ?? '';

export const randomSeed = () => Math.floor(Math.random() * 2 ** 48);

/// The options of a `generate` frame, without messages. Every answer gets a seed from here, so that
/// the same one can be asked for again.
export function requestOptions(seed) {
	const { system, markdown, stop, key, ...numbers } = settings;
	const strings = stop.split('\n').filter(Boolean).map((line) => line.replace(/\\([nt\\])/g, (_, letter) => ({ n: '\n', t: '\t' })[letter] ?? letter));
	return { seed, ...numbers, ...(strings.length > 0 && { stop: strings }) };
}

export function openSettings(hello) {
	ui.fields.replaceChildren(...Object.entries(kFields).map(([key, [label, hint, kind, min, max, step]]) => {
		const isText = kind === 'text';
		const control = h(isText ? 'textarea' : 'input', { id: `set-${key}`, 'aria-describedby': `${key}-hint`, value: settings[key] ?? '' },
			!isText && { type: kind, min, max, step, checked: settings[key], placeholder: hello.sampling?.[key] ?? hello[`${key}_default`] ?? '' });
		const below = h('p', { id: `${key}-hint`, role: 'status' }, hint);
		control.oninput = () => {
			const valid = control.validity.valid && control.value !== '';
			settings[key] = kind === 'checkbox' ? control.checked : kind !== 'number' ? control.value : valid ? control.valueAsNumber : undefined;
			save('settings', settings);
			below.textContent = control.validationMessage || hint;
			control.ariaInvalid = !control.validity.valid;
			if (key === 'markdown') on.look();
		};
		if (key === 'key') control.onchange = on.key;
		return h('div.field', h('label', { htmlFor: control.id }, label), control, below);
	}));
	ui.reset.onclick = () => {
		for (const key in kFields) if (kFields[key][3] !== undefined) delete settings[key];
		settings.stop = '';
		save('settings', settings);
		openSettings(hello);
	};
	if (!ui.settings.open) ui.settings.showModal();
}
