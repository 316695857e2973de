// One WebSocket to the server, made again whenever it is lost, and the streams on it.
//
// A stream that the server keeps (`accepted` brought its key) outlives the connection: it is
// taken up on the next one, after the last event that was heard.

import { apiKey } from './settings.js';

const kFirstDelay = 500;      // ms before the first new try
const kLongestDelay = 15000;
const kOpenDeadline = 10000;  // from connecting to the server's hello
const kUnauthorized = 4401;   // the server does not know the key

/// What is told of it. `stray` is an error that names no stream.
export const on = { change() {}, hello() {}, stats() {}, stray() {} };
export let state = 'connecting';  // or open, waiting for the next try, or locked until there is a good key

const url = new URL('v1/stream', location.href);
url.protocol = url.protocol.replace('http', 'ws');
url.search = url.hash = '';

const streams = new Map();  // id -> {listener, key, heard, cancelled}
let socket = null;
let failures = 0;
let timer = 0;
let streamCount = 0;
let watching = false;

/// Also instead of a connection that there is.
export function open() {
	if (socket) drop(socket);
	clearTimeout(timer);
	become('connecting');
	const key = apiKey();
	const opened = socket = new WebSocket(url, key ? ['sluice.v1', `sluice.key.${key}`] : 'sluice.v1');
	timer = setTimeout(() => drop(opened), kOpenDeadline);
	opened.onmessage = ({ data }) => receive(JSON.parse(data));
	opened.onclose = ({ code }) => drop(opened, code === kUnauthorized);
}

/// Does not wait for the timer when a try is due later.
export function retryNow() {
	if (state === 'waiting') open();
}

/// Gives up a connection that seems open but brings nothing.
export function renew() {
	if (state === 'open') drop(socket);
}

/// False when there is no connection; nothing is queued.
export function send(frame) {
	if (state !== 'open') return false;
	socket.send(JSON.stringify(frame));
	return true;
}

/// Returns the stream's id, or null without a connection. The listener's methods are named after
/// the frames (accepted, heartbeat, token, done, error), and lost().
export function start(request, listener) {
	const id = `s${++streamCount}`;
	if (!send({ type: 'generate', id, ...request })) return null;
	streams.set(id, { listener, key: null, heard: 0 });
	return id;
}

/// Takes up a stream that an earlier page began, now or when there is a connection.
export function resume(key, heard, listener) {
	const id = `s${++streamCount}`;
	streams.set(id, { listener, key, heard });
	takeUp(streams.get(id), id);
	return id;
}

export function cancel(id) {
	if (streams.has(id)) streams.get(id).cancelled = true;
	send({ type: 'cancel', id });
}

/// Hears nothing more of this stream; its end is taken silently.
export function forget(id) {
	if (streams.has(id)) streams.get(id).listener = {};
}

/// Whether `stats` frames are wanted. Nobody looks at a hidden page.
export function watch(wanted) {
	watching = wanted;
	const on = watching && !document.hidden;
	send({ type: 'stats', on, held: on });
}

function takeUp({ key, heard, cancelled }, id) {
	send({ type: 'resume', id, stream: key, after: heard });
	if (cancelled) send({ type: 'cancel', id });
}

function receive(frame) {
	const { type, id, n } = frame;
	if (type === 'hello') {
		clearTimeout(timer);
		failures = 0;
		become('open');
		on.hello(frame);
		streams.forEach(takeUp);
		if (watching) watch(true);
	} else if (id === undefined) {
		on[type === 'stats' ? 'stats' : 'stray'](frame);
	} else if (streams.has(id)) {
		const stream = streams.get(id);
		if (type === 'done' || type === 'error') streams.delete(id);
		if (type === 'accepted') stream.key = frame.stream;
		if (type === 'accepted' || type === 'token') {
			if (n <= stream.heard) return;
			stream.heard = n;
		}
		stream.listener[type]?.(frame);
	}
}

/// The next try comes after a delay that doubles with every failure; up to half of it is left to
/// chance, so that many pages do not return at the same moment.
function drop(which, locked) {
	if (which !== socket) return;
	socket = which.onmessage = which.onclose = null;
	which.close();
	const wasOpen = state === 'open';
	const longest = Math.min(kLongestDelay, kFirstDelay * 2 ** failures++);
	clearTimeout(timer);
	if (!locked) timer = setTimeout(open, longest * (0.5 + Math.random() / 2));
	become(locked ? 'locked' : 'waiting');
	for (const [id, { key, listener }] of wasOpen ? [...streams] : []) {
		if (key) continue;
		streams.delete(id);
		listener.lost?.();
	}
}

function become(next) {
	state = next;
	on.change();
}

addEventListener('online', retryNow);
addEventListener('pageshow', retryNow);
document.addEventListener('visibilitychange', () => {
	if (!document.hidden) retryNow();
	if (watching) watch(true);
});
