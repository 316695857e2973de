// The text of an answer, which grows at its end: plain, or as Markdown. It stays fast however long
// it gets: what can not change any more is left alone, and only the last block is made again.

import { beforePaint, h } from './dom.js';
import { highlight } from './markdown.js';

const kBlockSize = 1500;  // characters of plain text

/// `markdown` as loadMarkdown() gives it, or null.
export function answerText(answer, markdown) {
	const node = h(`div.text.${markdown ? 'markdown' : 'plain'}`);
	let shown = 0;  // characters that are on the page for good
	let tail = null;
	let finished = false;

	function growPlain() {
		let rest = answer.text.slice(shown);
		shown += rest.length;
		while (rest) {
			tail ??= node.appendChild(h('div')).appendChild(document.createTextNode(''));
			const end = rest.indexOf('\n', Math.max(0, kBlockSize - tail.length)) + 1;
			tail.appendData(end ? rest.slice(0, end) : rest);
			rest = end ? rest.slice(end) : '';
			if (end) tail = null;
		}
	}

	function growMarkdown() {
		if (finished) return;
		const blocks = markdown.lex(answer.text.slice(shown));
		const last = blocks.findLastIndex(({ type }) => type !== 'space');
		const final = blocks.splice(0, Math.max(0, last));
		for (const { raw } of final) shown += raw.length;
		tail?.remove();
		tail = h('div.tail', markdown.nodes(blocks));
		node.append(markdown.nodes(final), tail);
	}

	/// Blocks may refer to each other: the whole is made once more.
	function finishMarkdown() {
		finished = true;
		node.replaceChildren(markdown.nodes(markdown.lex(answer.text)));
		highlight(node);
	}

	const grow = markdown ? growMarkdown : growPlain;
	return { node, hold() {}, grow: () => beforePaint(grow), finish: markdown ? finishMarkdown : growPlain };
}
