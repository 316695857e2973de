// Why an answer ended, in words for people.

const kShownLength = 24;

// rule: [label, tone, sentence]
const kRules = {
  context_full: ['Context full', 'limit', 'Prompt and answer together fill all the positions the model has.'],
  low_confidence: ['Lost confidence', 'limit', 'The best next token stayed too unlikely for several tokens in a row.'],
  repetition: ['Repeated itself', 'limit', 'The same words came round too many times.'],
  custom: ['Stopped by a rule', 'limit', 'A rule of the server’s own ended this answer.'],
  time_limit: ['Time limit', 'limit', 'The time allowed for this answer was over.'],
};

/// {before, code, after, tone, sentence}: a label of up to three parts (`code` is shown as
/// typed), a tone ('', 'limit', 'quiet') and one sentence that explains the rule.
export function describeEnd({ rule, matched, detail, position, usage }, stoppedHere) {
  const label = (before, tone, sentence, code = '', after = '') => ({ before, code, after, tone, sentence });
  switch (rule) {
    case 'end_token':
      return label('Ended by ', '', 'The model drew the token that ends its turn.', visible(matched || 'its end token'));
    case 'stop_string':
      return label('Stop string “', '', `The text reached one of your stop strings, at byte ${position}.`, visible(matched), '”');
    case 'max_new_tokens':
      return label(`Reached ${usage?.completion_tokens} tokens`, 'limit',
        'The answer is as long as allowed. Raise “Longest answer” in the settings for more.');
    case 'cancelled':
      if (stoppedHere) return label('Stopped by you', 'quiet', 'You stopped this answer; the text up to there is kept.');
      return label(/client/.test(detail) ? 'Stopped in another tab' : 'Stopped by the server', 'limit', sentenceOf(detail));
    default:
      return label(...(kRules[rule] ?? [`Ended: ${rule}`, 'quiet', sentenceOf(detail) || 'The server gave this rule.']));
  }
}

function sentenceOf(detail) {
  const text = String(detail ?? '');
  return text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
}

/// White space can be seen, and long strings are cut.
function visible(text) {
  const shown = String(text).replaceAll('\n', '⏎').replaceAll('\t', '⇥').replace(/^ | $/g, '␣');
  const points = [...shown];
  return points.length > kShownLength ? `${points.slice(0, kShownLength).join('')}…` : shown;
}
