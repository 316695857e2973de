// How numbers, tokens and ends are written for people.

export function duration(ms) {
	if (!(ms >= 0)) return '–';
	return ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export const rateText = (rate) => `${rate.toFixed(rate < 100 ? 1 : 0)} tok/s`;

export const count = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;

export const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(logprob < -2.3 ? 1 : 0)} %`;

export const mebibytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/// White space can be seen, and long strings are cut.
export const visible = (text) => [...text.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replace(/^ | $/g, '␣')].slice(0, 30).join('');

const kRules = {  // rule: [label, sentence]
	context_full: ['Context full', 'Prompt and answer fill all the positions there are.'],
	low_confidence: ['Lost confidence', 'The best next token stayed too unlikely for too long.'],
	repetition: ['Repeated itself', 'The same words came round too many times.'],
	custom: ['Stopped by a rule', 'A rule of the server’s own.'],
	time_limit: ['Time limit', 'The time for this answer was over.'],
};

/// Why an answer ended: {label, code, sentence, tone}; `code` is shown as typed, after the label,
/// and tone is 'good', 'limit' or 'quiet'.
export function describeEnd({ done: { rule, matched, detail, position, usage }, stoppedHere }) {
	const end = (label, sentence, tone = 'limit', code = '') => ({ label, sentence, tone, code });
	if (rule === 'end_token') return end('Ended by ', 'The model drew the token that ends its turn.', 'good', visible(matched));
	if (rule === 'stop_string') return end('Stop string ', `Your stop string came at byte ${position}.`, 'good', visible(matched));
	if (rule === 'max_new_tokens') return end(`Reached ${count(usage.completion_tokens, 'token')}`, 'That was the longest answer allowed; see the settings.');
	if (rule !== 'cancelled') return end(...(kRules[rule] ?? [`Ended: ${rule}`, `Ended by the rule ${rule}. ${detail}`]));
	if (stoppedHere) return end('Stopped by you', 'You stopped this answer.');
	return end(/client/.test(detail) ? 'Stopped in another tab' : 'Stopped by the server', `Ended: ${detail}.`);
}
