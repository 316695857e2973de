// What the user can do: send, stop, try again, edit, start afresh. One conversation is open, and
// one answer at a time is under way.

import * as link from './connection.js';
import { forgetOldest, isUnderWay, messagesFor, newAnswer, restored, titleOf } from './conversation.js';
import { ui } from './dom.js';
import { turnView } from './turn_view.js';
import { announce, composer, follow, hideNotice, showNotice } from './parts.js';
import { randomSeed, requestOptions, settings } from './settings.js';
import { loadChat, onStored, storeChat } from './store.js';
import { count, describeEnd } from './words.js';

const kTick = 250;        // ms between two updates of the live numbers
const kSilence = 22000;   // ms without any sign of life; a heartbeat is due every 10 s
const kKeep = 30000;      // ms that the server is to keep a stream whose page is away
const kAlternatives = 5;  // asked for while X-ray is open

export let conversation = restored();
export let active = null;  // {turn, id, sentAt, heardAt, heartbeat, timer}
/// How answers are shown: by token, or with `markdown` as loadMarkdown() gives it, or plain.
export const look = { tokens: false, markdown: null };
export let hello = {};

let views = new WeakMap();
let editing = null;  // the turn that the next message replaces

const last = () => conversation.turns.at(-1);

function viewOf(turn) {
	if (!views.has(turn)) views.set(turn, turnView(turn));
	return views.get(turn);
}

/// Shows a stored conversation, or an empty one, and takes up the answer that is under way. One
/// that is left goes on, and is taken up when its conversation is opened again in time.
export async function openChat(id) {
	const stored = id && await loadChat(id);
	if (active) {
		store();
		link.forget(active.id);
		end();
	}
	cancelEdit();
	conversation = restored(stored);
	redraw();
	const answer = last()?.answer;
	if (!answer || !isUnderWay(answer)) return;
	begin(last());
	active.id = link.resume(answer.key, answer.n, listener(active));
	setPaused(answer.paused);
}

export function newChat() {
	openChat();
	hideNotice();
	composer.settle();
}

/// True when the message is on its way; otherwise it stays where it is.
export function sendMessage(prompt) {
	if (active || !reachable('Your text stays here until it is back.')) return false;
	const { turns } = conversation;
	if (editing) turns.splice(turns.indexOf(editing));
	editing = null;
	turns.push({ prompt, answer: newAnswer() });
	again(last(), randomSeed());
	return true;
}

/// Asks for an answer to the last message; the same seed draws the same one.
export function again(turn, seed = turn.answer.seed) {
	if (active || !reachable('Try again when it is back.')) return;
	cancelEdit();
	hideNotice();
	const options = requestOptions(seed);
	turn.answer = newAnswer(options.seed);
	const request = { messages: messagesFor(conversation, turn, settings.system.trim()), ...options };
	const keep = Math.min(kKeep, hello.max_keep_ms);
	if (keep) request.keep_ms = keep;
	if (look.tokens) request.top_logprobs = kAlternatives;
	begin(turn);
	views.delete(turn);
	update();
	if (document.activeElement === document.body) ui.scroller.focus({ preventScroll: true });
	active.id = link.start(request, listener(active));
}

/// True when there was something to stop.
export function stop() {
	if (!active) return false;
	active.turn.answer.stoppedHere = true;
	composer.setBusy('stopping');
	tick();
	link.cancel(active.id);
	return true;
}

/// Closes the gate in a running answer, or opens it again.
export function togglePause() {
	const { stoppedHere, paused } = active.turn.answer;
	if (stoppedHere || !link.send({ type: paused ? 'unpause' : 'pause', id: active.id })) return;
	setPaused(!paused);
	announce.say(paused ? 'The answer goes on.' : 'Paused.');
}

export function makeRoom(turn) {
	forgetOldest(conversation, turn);
	again(turn);
}

export function edit(turn) {
	if (active) return;
	editing = turn;
	composer.text = turn.prompt;
	ui.prompt.focus();
	showNotice('You are editing a message. Sending it replaces that message and all after it.', '', ['Leave it as it was', cancelEdit]);
}

export function cancelEdit() {
	if (!editing) return;
	editing = null;
	composer.text = '';
	hideNotice();
}

export function setHello(frame) {
	hello = frame;
	hideNotice('warn');
}

/// All answers again, as `look` says.
export function redraw() {
	views = new WeakMap();
	update();
}

/// Shows what is held back in the running answer.
export const hold = (text) => viewOf(active.turn).hold(text);

function reachable(advice) {
	if (link.state === 'open') return true;
	showNotice(`No connection to the server. ${advice}`, 'warn');
	link.retryNow();
	return false;
}

function begin(turn) {
	const now = performance.now();
	const earlier = turn.answer.tokens.at(-1)?.[2] ?? 0;  // seen by an earlier page
	active = { turn, sentAt: now - earlier, heardAt: now, timer: setInterval(tick, kTick) };
	announce.begin();
	composer.setBusy('answering');
}

function setPaused(paused) {
	active.turn.answer.paused = paused;
	viewOf(active.turn).setPaused(paused);
	tick();
}

function listener(run) {
	const { answer } = run.turn;
	const heard = () => (run.heardAt = performance.now());
	return {
		accepted(frame) {
			Object.assign(answer, { accepted: frame, key: frame.stream, n: frame.n });
			heard();
			tick();
			store(true);
		},
		heartbeat(frame) {
			run.heartbeat = frame;
			heard();
			if (frame.phase === 'paused') setPaused(true);  // perhaps by another tab
			tick();
		},
		token({ text, n, tokens }) {
			const ms = Math.round(heard() - run.sentAt);
			for (const { id, text: piece, logprob, top } of tokens) {
				if (id < 0 && answer.drawn) answer.tokens.at(-1)[0] += piece;
				else answer.drawn = answer.tokens.push([piece, logprob, ms, top?.map((each) => [each.text, each.logprob])]);
			}
			answer.ttft ||= ms;
			Object.assign(answer, { status: 'live', n, text: answer.text + text });
			viewOf(run.turn).grow();
			announce.append(text);
			if (answer.drawn === 1) tick();
		},
		done(frame) {
			Object.assign(answer, { status: 'done', done: frame, drawn: frame.usage.completion_tokens });
			const { label, code } = describeEnd(answer);
			finish(`${label}${code}. ${count(answer.drawn, 'token')}.`);
		},
		error({ code, message }) {
			answer.code = code;
			if (code === 'unknown_stream' || code === 'gone_too_far') fail('cut', 'Interrupted: the server no longer has the rest of this answer.');
			else fail('failed', code === 'prompt_too_long' ? `This conversation no longer fits into the model’s context. ${message}` : message);
		},
		lost: () => fail('cut', 'The connection broke before this answer was complete.'),
	};
}

function fail(status, message) {
	Object.assign(active.turn.answer, { status, message });
	finish(message);
}

function finish(sentence) {
	viewOf(active.turn).finish();
	end();
	announce.end(sentence);
	store(true);
}

function end() {
	clearInterval(active.timer);
	active = null;
	composer.setBusy('');
}

function store(tell) {
	if (last()) storeChat({ ...conversation, title: titleOf(conversation), at: Date.now() }, tell);
}

function tick() {
	const { turn, heardAt } = active;
	const now = performance.now();
	if (now - heardAt > kSilence && turn.answer.key) {
		active.heardAt = now;
		link.renew();
	}
	const lost = link.state !== 'open';
	viewOf(turn).live(active, turn.answer.stoppedHere ? 'Stopping…' : lost && 'Connection lost. The answer goes on when it is back.', lost);
}

/// Brings the page in line with the list of turns.
function update() {
	const { turns, id } = conversation;
	ui.conversation.replaceChildren(...turns.map((turn) => viewOf(turn).node));
	for (const turn of turns) viewOf(turn).node.classList.toggle('forgotten', turn.forgotten === true);
	ui.welcome.hidden = turns.length > 0;
	ui.conversation.hidden = turns.length === 0;
	history.replaceState(null, '', last() ? `#${id}` : location.pathname);
	document.title = titleOf(conversation) || 'Sluice';
	follow.start();
}

onStored((id) => { if (id === conversation.id && !active) openChat(id); });
addEventListener('pagehide', () => store());
