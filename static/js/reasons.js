// Why an answer ended, in words for people.

const kShownLength = 24;

/// {before, code, after, tone, sentence}: a label of up to three parts (`code` is shown as
/// typed), a tone ('', 'limit', 'quiet') and one sentence that explains the rule.
export function describeEnd(done, stoppedHere) {
  const tokens = done.usage?.completion_tokens ?? 0;
  switch (done.rule) {
    case 'end_token':
      return {
        before: 'Ended by ', code: visible(done.matched || 'its end token'), after: '', tone: '',
        sentence: 'The model drew the token that ends its turn.',
      };
    case 'stop_string':
      return {
        before: 'Stop string “', code: visible(done.matched ?? ''), after: '”', tone: '',
        sentence: `The text reached one of your stop strings, at byte ${done.position ?? 0}.`,
      };
    case 'max_new_tokens':
      return plain(`Reached ${tokens} tokens`, 'limit',
        'The answer is as long as allowed. Raise “Longest answer” in the settings for more.');
    case 'context_full':
      return plain('Context full', 'limit',
        'Prompt and answer together fill all the positions the model has.');
    case 'low_confidence':
      return plain('Lost confidence', 'limit',
        'The best next token stayed too unlikely for several tokens in a row.');
    case 'repetition':
      return plain('Repeated itself', 'limit', 'The same words came round too many times.');
    case 'time_limit':
      return plain('Time limit', 'limit', 'The time allowed for this answer was over.');
    case 'cancelled':
      return stoppedHere
        ? plain('Stopped by you', 'quiet', 'You stopped this answer; the text up to there is kept.')
        : plain('Stopped by the server', 'limit', sentenceOf(done.detail) || 'The server ended this answer.');
    default:
      return plain(`Ended: ${done.rule ?? done.reason ?? 'unknown'}`, 'quiet',
        sentenceOf(done.detail) || 'The server gave this rule.');
  }
}

const plain = (before, tone, sentence) => ({ before, code: '', after: '', tone, sentence });

function sentenceOf(detail) {
  if (!detail) return '';
  const text = String(detail);
  return text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
}

/// White space can be seen, and long strings are cut.
function visible(text) {
  const shown = text.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replace(/^ | $/g, '␣');
  const points = [...shown];
  return points.length > kShownLength ? `${points.slice(0, kShownLength).join('')}…` : shown;
}
