// An answer token by token: coloured by probability, alternatives on hover and by arrow keys,
// text that is held back, and where it was stopped.

import { beforePaint, h, ui } from './dom.js';
import { percent, visible } from './words.js';

const kBounds = [0.9, 0.5, 0.2, 0.05];  // of the five colours, by probability

const colourOf = (logprob) => `q${kBounds.filter((bound) => Math.exp(logprob) < bound).length}`;

let shown = null;  // the token that the tip belongs to

export function hideTip() {
	shown?.classList.remove('at');
	shown = null;
	ui.tip.hidden = true;
}

function showTip(node, [text, logprob, ms, top]) {
	hideTip();
	shown = node;
	node.classList.add('at');
	const drawn = ([piece, each]) => piece === text && each === logprob;
	const rows = top?.some(drawn) ? top : [[text, logprob], ...(top ?? [])];
	ui.tip.replaceChildren(h('ul', rows.map((row) => {
		const bar = h(`i.bar.${colourOf(row[1])}`);
		bar.style.width = `${5 * Math.exp(row[1])}rem`;
		return h(drawn(row) ? 'li.drawn' : 'li', h('code', visible(row[0]) || '∅'), h('span', bar), percent(row[1]));
	})), h('p', `After ${ms} ms.${top ? '' : ' Answers asked for while X-ray is open have alternatives.'}`));
	ui.tip.hidden = false;
	const { left, top: above, bottom } = node.getBoundingClientRect();
	const { offsetWidth, offsetHeight, style } = ui.tip;
	style.left = `${Math.max(8, Math.min(left, innerWidth - offsetWidth - 8))}px`;
	style.top = `${above > offsetHeight + 70 ? above - offsetHeight - 6 : bottom + 6}px`;
}

export function tokenText(answer) {
	const held = h('span.held', { title: 'Held back: it may become a stop' });
	const node = h('div.text.tokens', { tabIndex: 0, role: 'group', 'aria-label': 'Answer, token by token. The arrow keys go through the tokens.' }, held);
	const nodes = [];
	let at = -1;

	function go(index) {
		if (!nodes[index]) return;
		at = index;
		nodes[at].scrollIntoView({ block: 'nearest' });
		showTip(nodes[at], answer.tokens[at]);
	}

	function grow() {
		if (nodes.length) nodes.at(-1).textContent = answer.tokens[nodes.length - 1][0] || '·';
		while (nodes.length < answer.tokens.length) {
			const [text, logprob] = answer.tokens[nodes.length];
			nodes.push(h(`span.${colourOf(logprob)}`, text || '·'));
			held.before(nodes.at(-1));
		}
	}

	node.onmouseover = node.onclick = ({ target }) => {
		const index = nodes.indexOf(target);
		if (index >= 0) showTip(nodes[at = index], answer.tokens[index]);
	};
	node.onmouseleave = node.onblur = hideTip;
	node.onkeydown = (event) => {
		const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: nodes.length - 1 }[event.key];
		if (event.key === 'Escape' && shown) hideTip();
		else if (to === undefined || event.altKey) return;
		else go(to);
		event.preventDefault();
	};
	return {
		node,
		grow: () => beforePaint(grow),
		hold(text) { held.textContent = text; },
		finish() {
			grow();
			const { rule, matched, position } = answer.done ?? {};
			held.replaceWith(rule ? h('span.cut-mark', `${rule}${matched ? ` ${visible(matched)}` : ''} at byte ${position}`) : '');
		},
	};
}
