// Small helpers around the document. Text enters the page as text alone, but for Markdown.

/// The page's elements by their ids.
export const ui = new Proxy({}, { get: (_, id) => document.getElementById(id) });

/// h('p.said', { onclick, 'aria-label': 'x' }, 'text', child, ...); what is false is left out.
export function h(spec, ...parts) {
	const [tag, ...classes] = spec.split('.');
	const node = document.createElement(tag);
	if (classes.length) node.className = classes.join(' ');
	for (const part of parts.flat()) {
		if (part?.constructor === Object) set(node, part);
		else if (part || part === 0) node.append(part);
	}
	return node;
}

function set(node, values) {
	for (const [key, value] of Object.entries(values)) {
		if (value === undefined) continue;
		if (key in node) node[key] = value;
		else node.setAttribute(key, value);
	}
}

export function svg(tag, attributes, ...children) {
	const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const key in attributes) node.setAttribute(key, attributes[key]);
	node.append(...children);
	return node;
}

const kIcons = {  // in a square of 20
	up: 'M10 16V4.5M4.8 9.7 10 4.5l5.2 5.2',
	down: 'M10 4v11.5M4.8 10.3l5.2 5.2 5.2-5.2',
	stop: 'M6 6h8v8H6Z',
	pause: 'M7 5v10M13 5v10',
	play: 'm7 4.5 8 5.5-8 5.5Z',
	plus: 'M10 4v12M4 10h12',
	close: 'm5 5 10 10M15 5 5 15',
	copy: 'M7 7h9v9H7ZM13 7V4H4v9h3',
	check: 'm4.5 10.5 3.7 3.7 7.3-8',
	again: 'M15.8 8A6.2 6.2 0 1 0 16 11.5M16.2 3.8V8H12',
	edit: 'm4 16 .7-3.3L14 3.4 16.6 6l-9.3 9.3L4 16Z',
	trash: 'M4 6h12M8 6V3.5h4V6M5.5 6l.8 10.5h7.4L14.5 6',
	tune: 'M3 6h7m4 0h3M3 14h3m4 0h7M12 4v4M8 12v4',
	theme: 'M15.5 12.5A6.5 6.5 0 0 1 8 4.3a6.3 6.3 0 1 0 7.5 8.2Z',
	chats: 'M4 5h12M4 10h12M4 15h7',
	xray: 'M3 12h3l2-7 4 11 2-6h3',
	gate: 'M4.5 3v14M15.5 3v14M10 3v6M7 9h6v7H7Z',
	alert: 'M10 3a7 7 0 1 0 .1 0M10 6.3v4.4M10 13.6v.1',
};

export const icon = (name) => svg('svg', { class: 'icon', viewBox: '0 0 20 20' }, svg('path', { d: kIcons[name] }));
for (const place of document.querySelectorAll('[data-icon]')) place.replaceWith(icon(place.dataset.icon));

export const button = (label, image, onclick, classes = '') => h(`button.tool${classes}`, { onclick, title: label }, image && icon(image), h('span', label));

/// One with an icon alone.
export const iconButton = (title, image, onclick) => h('button.tool.square', { onclick, title }, icon(image));

const waiting = new Set();

/// Calls `work` once before the next paint, however often it is asked.
export function beforePaint(work) {
	if (waiting.size === 0) {
		requestAnimationFrame(() => {
			const now = [...waiting];
			waiting.clear();
			for (const each of now) each();
		});
	}
	waiting.add(work);
}

/// What this browser remembers; storage may be full, closed or hold anything.
export function load(key, fallback) {
	try {
		return JSON.parse(localStorage.getItem(`sluice.${key}`)) ?? fallback;
	} catch {
		return fallback;
	}
}

export function save(key, value) {
	try {
		localStorage.setItem(`sluice.${key}`, JSON.stringify(value));
	} catch { /* nothing is remembered then; everything else works */ }
}

export async function copyText(text, from) {
	const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
	if (from.dataset.busy) return;
	const before = [...from.childNodes];
	from.dataset.busy = true;
	from.replaceChildren(icon(copied ? 'check' : 'alert'), h('span', copied ? 'Copied' : 'Not copied'));
	setTimeout(() => {
		from.replaceChildren(...before);
		delete from.dataset.busy;
	}, 1600);
}

export const download = (name, text) => h('a', { href: URL.createObjectURL(new Blob([text])), download: name }).click();
