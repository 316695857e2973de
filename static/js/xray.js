// X-ray: the machine at work, beside the answer token by token. Follows the server's `stats`
// frames while it is open.

import { active, conversation, hold, look, redraw } from './chat.js';
import { watch } from './connection.js';
import { h, svg, ui } from './dom.js';
import { apiKey } from './settings.js';
import { hideTip } from './token_text.js';
import { count, describeEnd, duration, mebibytes } from './words.js';

const kShown = 120;      // steps in the timeline, gaps in the sparkline
const kCell = 10;        // px of a block in the map, with its gap
const kMaxCells = 4096;  // blocks in the map

let frame = null;
let own = new Set();  // sequences of this page's streams
let steps = [];
let asked = null;     // the turn that the user asked about; else the last one

export function toggle() {
	const open = ui.xray.hidden;
	ui.xray.hidden = !open;
	ui.toggleXray.ariaPressed = look.tokens = open;
	asked = null;
	hideTip();
	redraw();
	watch(open);
	drawAnswer();
	if (open && !ui.plan.hasChildNodes()) drawPlan();
}

export function explain(turn) {
	if (ui.xray.hidden) toggle();
	asked = turn;
	drawAnswer();
	ui.xray.scrollTop = 0;
}

export function take(next) {
	frame = next;
	own = new Set(Object.values(frame.streams).map(({ sequence }) => sequence));
	steps = [...steps, ...frame.steps].slice(-kShown);
	if (active) {
		asked = null;
		hold(frame.streams[active.id]?.held ?? '');
	}
	drawAnswer();
	drawBlocks();
	drawSteps();
	drawActors();
}

/// A colour for each sequence; the user's own stand out.
const colourOf = (sequence) => (own.has(sequence) ? 'var(--accent)' : `hsl(${(sequence * 67 + 190) % 360} 38% 58%)`);

function box(x, y, width, height, sequence, ...parts) {
	const rect = svg('rect', { x, y, width, height }, ...parts);
	if (sequence) rect.style.fill = colourOf(sequence);
	return rect;
}

const list = (rows) => Object.entries(rows).filter(([, value]) => value).flatMap(([name, value]) => [h('dt', name), h('dd', `${value}`)]);

function drawAnswer() {
	const turn = asked ?? conversation.turns.at(-1);
	if (!turn) return ui.facts.replaceChildren('No answer yet.');
	const { done, accepted, tokens, ttft, drawn, seed, message } = turn.answer;
	const gaps = tokens.slice(1).map(([, , ms], i) => ms - tokens[i][2]);
	const highest = gaps.reduce((a, b) => Math.max(a, b), 1);
	const now = active?.turn === turn && frame?.sequences.find(({ sequence }) => own.has(sequence));
	const reading = now?.phase === 'prefill' && h('progress', { value: now.computed, max: now.total, ariaLabel: 'Prefill' });
	ui.facts.replaceChildren(
		h('p', done ? describeEnd(turn.answer).sentence : message ?? `Under way: ${now?.phase ?? 'sent'}.`, reading),
		h('dl', list({
			Rule: done && `${done.rule} at byte ${done.position}`,
			Prompt: accepted && `${count(accepted.prompt_tokens, 'token')}${done ? `, ${done.usage.cached_tokens} cached` : ''}`,
			Prefill: reading && `${now.computed} of ${now.total} positions`,
			Waited: done && duration(done.timing.queued_ms),
			'First token (TTFT)': ttft > 0 && `${done ? `${duration(done.timing.ttft_ms)}, seen here after ` : ''}${duration(ttft)}`,
			'Between tokens (ITL)': gaps.length > 0 && `${duration((tokens.at(-1)[2] - tokens[0][2]) / gaps.length)} on average, ${duration(highest)} at most`,
			Tokens: accepted && `${drawn} of ${accepted.max_tokens} allowed`,
			Context: accepted && `${accepted.prompt_tokens + drawn} of ${accepted.context_length}`,
			Seed: seed,
		})),
		svg('svg', { class: 'spark', viewBox: `0 0 ${kShown} 31`, preserveAspectRatio: 'none', 'aria-hidden': true },
			svg('polyline', { points: gaps.slice(-kShown).map((gap, i) => `${i},${30 - 28 * gap / highest}`).join(' ') })));
}

/// Each cell is a block: free, cached, or in its owner's colour, framed when it is shared.
function drawBlocks() {
	const { total, used, cached, block_size: size, prefix_hits: hits, prefix_queries: queries, map } = frame.kv;
	const columns = Math.max(1, Math.floor(ui.blocks.clientWidth / kCell));
	const cells = [];
	let shared = 0;
	for (const [length, owners, sequence] of map) {
		const state = owners > 0 ? `sequence ${sequence}${owners > 1 ? ` and ${owners - 1} more` : ''}` : owners < 0 ? 'cached' : 'free';
		if (owners > 1) shared += length;
		for (let i = 0; i < length && cells.length < kMaxCells; i++) {
			const n = cells.length;
			const cell = box((n % columns) * kCell, Math.floor(n / columns) * kCell, kCell - 2, kCell - 2, sequence, svg('title', {}, `Block ${n}: ${state}`));
			cell.setAttribute('class', owners > 1 ? 'shared' : state);
			cells.push(cell);
		}
	}
	ui.blocks.setAttribute('height', Math.ceil(cells.length / columns) * kCell);
	ui.blocks.replaceChildren(...cells);
	ui.blocksText.textContent = `${used} of ${total} blocks of ${size} positions in use, ${shared} shared, ${cached} cached. ${hits} of ${queries} prompt positions came from the cache.`;
}

/// One column a step, one box a sequence; the height is the number of tokens.
function drawSteps() {
	const sumOf = ({ slices }) => slices.reduce((sum, [, tokens]) => sum + tokens, 0);
	const tallest = Math.max(8, ...steps.map(sumOf));
	ui.steps.replaceChildren(...steps.flatMap(({ slices }, i) => {
		let y = 100;
		return slices.map(([sequence, tokens]) => {
			const height = 100 * tokens / tallest;
			return box(3 * (i + kShown - steps.length), y -= height, 2.3, Math.max(0.6, height - 0.6), sequence);
		});
	}));
	const last = steps.at(-1);
	ui.stepsText.textContent = last ? `Step ${last.number} took ${duration(last.ms)}: ${count(last.slices.length, 'sequence')}, ${count(sumOf(last), 'token')}. The whole height is ${tallest} tokens. ${frame.running} running, ${frame.waiting} waiting.` : '';
}

function drawActors() {
	const sessions = frame.actors.filter(({ name }) => name === 'session').map(({ mailbox }) => mailbox);
	const row = (name, mailbox) => h('tr', h('td', name), h('td', mailbox));
	ui.actors.replaceChildren(...frame.actors.filter(({ name }) => name !== 'session').map(({ name, mailbox, busy }) => row(busy ? `${name}, in a step` : name, mailbox)),
		row(`session × ${sessions.length}`, Math.max(0, ...sessions)));
}

async function drawPlan() {
	const { summary, backend, plan } = await (await fetch('v1/plan', { headers: { authorization: `Bearer ${apiKey()}` } })).json();
	if (!plan) return;
	ui.plan.replaceChildren(...list({ model: summary, backend }));
	for (const [key, value] of Object.entries(plan)) {
		ui.plan.append(h('dt', key.replaceAll('_', ' ')), h('dd', key.endsWith('_bytes') ? mebibytes(value) : `${value}`));
	}
}
