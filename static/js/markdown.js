// Markdown to nodes, by the libraries in vendor/, where the server has them.
//
// The text is hostile. HTML in it is shown as text, pictures become links, and what is left goes
// through a second filter that lets a few tags pass, and no scripts, styles or odd addresses.

import { copyText, h, iconButton } from './dom.js';

const kFilter = {
	ALLOWED_TAGS: 'p br hr h1 h2 h3 h4 h5 h6 em strong del code pre blockquote ul ol li a table thead tbody tr th td'.split(' '),
	ALLOWED_ATTR: ['href', 'title', 'start', 'align', 'class'], ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
	ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true,
};
const kCodeFilter = { ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'], RETURN_DOM_FRAGMENT: true };

const escape = (text) => h('i', text).innerHTML.replaceAll('"', '&quot;');
const renderer = {
	html: ({ text }) => escape(text),
	image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
	checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
};

let libraries;
let highlighter;

/// {lex, nodes}: text to blocks, and blocks to nodes; null where there are no libraries.
export const loadMarkdown = () => libraries ??= Promise.all([import('../vendor/marked.js'), import('../vendor/purify.js')])
	.then(([{ Marked }]) => {
		const marked = new Marked({ breaks: true, renderer });
		return { lex: (text) => marked.lexer(text), nodes: (blocks) => finish(globalThis.DOMPurify.sanitize(marked.parser(blocks), kFilter)) };
	}, () => null);

function finish(nodes) {
	for (const node of nodes.querySelectorAll('[class]')) {
		if (!/^language-[\w+#.-]+$/.test(node.className)) node.removeAttribute('class');
	}
	for (const link of nodes.querySelectorAll('a')) Object.assign(link, { target: '_blank', rel: 'noopener noreferrer' });
	for (const wide of nodes.querySelectorAll('pre, table')) {
		const text = wide.textContent;
		const copy = wide.tagName === 'PRE' && iconButton('Copy code', 'copy', () => copyText(text, copy));
		const frame = h('div.frame');
		wide.replaceWith(frame);
		frame.append(h('div.wide', { tabIndex: 0, role: 'group', ariaLabel: copy ? 'Code' : 'Table' }, wide), copy || '');
	}
	return nodes;
}

/// Colours the code inside `node`, where it is in one of the common languages.
export async function highlight(node) {
	for (const code of node.querySelectorAll('pre code[class]')) {
		const text = code.textContent;
		const hljs = await (highlighter ??= import('../vendor/highlight.js').then((module) => module.default, () => null));
		const language = code.className.slice('language-'.length);
		if (!hljs?.getLanguage(language)) continue;
		code.replaceChildren(globalThis.DOMPurify.sanitize(hljs.highlight(text, { language, ignoreIllegals: true }).value, kCodeFilter));
	}
}
