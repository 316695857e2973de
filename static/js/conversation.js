// What was said: {id, turns}; each turn is a message and its answer.
//
// turn: {prompt, forgotten, answer}
// answer: {text, tokens, status, drawn, seed, accepted, done, ttft, stoppedHere, paused, code,
//          message, key, n}
// status: waiting, live, then one of done, cut (interrupted) and failed (an error).
// key and n: the stream at the server, and its last event that is part of `text`.
// tokens: [text, logprob, ms since sending, [[text, logprob], ...] or undefined]

export const newAnswer = (seed) => ({ text: '', tokens: [], status: 'waiting', drawn: 0, seed, ttft: 0, n: 0 });

export const isUnderWay = ({ status }) => status === 'waiting' || status === 'live';

/// Of what was stored, which may be nothing or anything.
export function restored(stored) {
	const conversation = { id: `${Math.random()}`.slice(2), turns: [] };
	try {
		for (const { prompt, forgotten, answer } of stored.turns) {
			if (typeof prompt !== 'string' || typeof answer.text !== 'string' || (answer.status === 'done' && !answer.done.rule)) break;
			if (isUnderWay(answer) && !answer.key) Object.assign(answer, { status: 'cut', message: 'The page was left while this answer was on its way.' });
			conversation.turns.push({ prompt, forgotten, answer: { ...newAnswer(), ...answer } });
		}
		conversation.id = `${stored.id}`;
	} catch { /* what could be read is there */ }
	return conversation;
}

export const titleOf = ({ turns }) => turns[0]?.prompt.trim().split('\n')[0].slice(0, 80) ?? '';

/// The turns before one that the model is to see: those that brought an answer.
export const rememberedBefore = ({ turns }, turn) => turns.slice(0, turns.indexOf(turn))
	.filter(({ forgotten, answer }) => !forgotten && answer.text);

/// Makes the model forget the older half of them, at least one.
export function forgetOldest(conversation, turn) {
	const before = rememberedBefore(conversation, turn);
	const last = before[Math.max(0, (before.length >> 1) - 1)];
	for (const each of conversation.turns.slice(0, conversation.turns.indexOf(last) + 1)) each.forgotten = true;
}

export const messagesFor = (conversation, turn, system) => [
	...(system ? [{ role: 'system', content: system }] : []),
	...rememberedBefore(conversation, turn).flatMap(({ prompt, answer }) => [{ role: 'user', content: prompt }, { role: 'assistant', content: answer.text }]),
	{ role: 'user', content: turn.prompt }];

export const asMarkdown = ({ turns }) => turns.map(({ prompt, answer }) => `## You\n\n${prompt}\n\n## Answer\n\n${answer.text}\n`).join('\n');
