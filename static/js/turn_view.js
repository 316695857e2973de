// One turn on the page: the message, the answer, why it ended, its numbers and actions.

import { answerText } from './answer_text.js';
import * as chat from './chat.js';
import { isUnderWay, rememberedBefore } from './conversation.js';
import { button, copyText, h, icon, iconButton } from './dom.js';
import { randomSeed } from './settings.js';
import { tokenText } from './token_text.js';
import { count, describeEnd, duration, rateText } from './words.js';
import { explain } from './xray.js';

export function turnView(turn) {
	const { prompt, answer } = turn;
	const text = chat.look.tokens ? tokenText(answer) : answerText(answer, chat.look.markdown);
	const progress = h('div.progress', 'Sending…');
	const figures = h('div.figures');
	const pause = h('button.tool', { onclick: chat.togglePause });
	const foot = h('div.foot', { hidden: true }, figures, h('div.actions', pause));
	const box = h('div.answer.live', { ariaBusy: true }, h('h2.unseen', 'Answer'), progress, text.node, foot);
	const node = h('article.turn',
		h('div.asked', h('h2.unseen', 'You'), h('div.said', prompt), h('div.actions', iconButton('Edit', 'edit', () => chat.edit(turn)))), box);

	function grow() {
		progress.hidden = true;
		foot.hidden = false;
		text.grow();
	}

	function setPaused(paused) {
		pause.title = paused ? 'Continue' : 'Pause';
		pause.replaceChildren(icon(paused ? 'play' : 'pause'), h('span', pause.title));
	}

	function show(ttft, rate, tokens) {
		figures.replaceChildren(...h('p', ttft > 0 && h('span', 'TTFT ', h('b', duration(ttft))), rate && h('b', rate), h('b', count(tokens, 'token'))).children);
	}

	/// How far it is, or what stands in the way; `lost`: there is no connection.
	function live({ heartbeat = {}, sentAt }, trouble, lost) {
		const { paused, ttft, tokens, drawn } = answer;
		const now = performance.now() - sentAt;
		if (!progress.hidden) {
			const { phase, queue_position: place, prefill_done: value, prefill_total: max } = heartbeat;
			const sentence = {
				queued: place > 1 ? `In the queue, ${place - 1} ahead of you` : 'Next in the queue', prefill: `Reading the prompt, ${value} of ${max} tokens`, paused: 'Paused',
			}[phase] ?? 'Waiting for the first token';
			progress.textContent = trouble || `${sentence} · ${Math.floor(now / 1000)} s`;
			if (phase === 'prefill') progress.append(h('progress', { value, max, ariaLabel: 'Prompt read' }));
			return;
		}
		box.classList.toggle('still', Boolean(paused || lost));
		pause.disabled = lost;
		show(trouble ? 0 : ttft, trouble || (paused ? 'Paused' : rateText((drawn - 1) * 1000 / (now - tokens[0]?.[2]) || 0)), drawn);
	}

	/// The answer is complete, was cut off, or was refused: what can be done is offered.
	function finish() {
		const { status, done, message, code, drawn } = answer;
		const hadFocus = pause === document.activeElement;
		text.finish();
		box.className = `answer ${status}`;
		box.ariaBusy = false;
		progress.hidden = true;
		foot.hidden = false;
		const copyAnswer = button('Copy', 'copy', () => copyText(answer.text, copyAnswer));
		foot.replaceChildren(figures, h('div.actions', copyAnswer, done && button('Regenerate', 'again', () => chat.again(turn, randomSeed()), '.for-last')));
		if (done) {
			const { timing } = done;
			const end = describeEnd(answer);
			foot.prepend(h(`button.chip.${end.tone}`, { title: end.sentence, onclick: () => explain(turn) }, icon('gate'), h('span', end.label, end.code && h('code', end.code))));
			show(timing.ttft_ms || answer.ttft, timing.tokens_per_second > 0 && rateText(timing.tokens_per_second), drawn);
		} else {
			show(0, '', drawn);
			foot.before(h('div.trouble', icon('alert'), h('p', message), h('div.choices.for-last', code === 'prompt_too_long' && rememberedBefore(chat.conversation, turn).length > 0
				? button('Forget the oldest turns and go on', '', () => chat.makeRoom(turn), '.firm') : button('Try again', '', () => chat.again(turn), '.firm'))));
		}
		if (hadFocus) foot.querySelector('button').focus();
	}

	setPaused(answer.paused);
	if (answer.text) grow();
	if (!isUnderWay(answer)) finish();
	return { node, grow, setPaused, live, finish, hold: text.hold };
}
