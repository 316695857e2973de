// The page in a real browser, against a server that does what each test wants.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { connected, lastAnswer, launchBrowser, openPage, say } from './support/browser.mjs';
import { kHello, startMock } from './support/mock_server.mjs';

let browser;
before(async () => { browser = await launchBrowser(); });
after(() => browser.close());

/// Runs `steps(page, server)` on a fresh page and server; the page must not have done anything
/// it must not do (see openPage).
async function withPage({ onGenerate, hello, page: pageOptions, connect = true }, steps) {
  const server = await startMock({ onGenerate, hello });
  const page = await openPage(browser, server.url, pageOptions);
  page.setDefaultTimeout(10000);
  try {
    if (connect) await connected(page);
    await steps(page, server);
    assert.deepEqual(page.problems, []);
  } finally {
    await page.context().close();
    await server.close();
  }
}

function chat(name, options, steps) {
  test(name, () => withPage(options, steps));
}

const chip = (page) => page.locator('.exchange.last .chip');
const trouble = (page) => page.locator('.exchange.last .trouble');
const prompt = (page) => page.locator('#prompt');
const press = (page, name) => page.getByRole('button', { name, exact: true }).click();

/// Steps that a test lets go one by one: `await gate.passed(n)` in the server waits for the n-th
/// `gate.open()`.
function makeGate() {
  let opened = 0;
  let wake = [];
  return {
    open() { opened += 1; wake.splice(0).forEach((resume) => resume()); },
    async passed(n) { while (opened < n) await new Promise((resume) => wake.push(resume)); },
  };
}

async function untilCancelled(stream) {
  stream.accepted();
  await stream.tokens('Once upon a time there was');
  await stream.whenCancelled;
  stream.token(' a gate.');
  stream.end();
}

describe('an answer', () => {
  const gate = makeGate();
  chat('grows token by token and shows why it ended', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token('Once');
      await gate.passed(1);
      stream.token(' upon');
      await gate.passed(2);
      stream.token(' a time.');
      stream.end();
    },
  }, async (page) => {
    await say(page, 'Tell me a story.');
    await lastAnswer(page).getByText('Once', { exact: true }).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'Once');
    assert.equal(await page.locator('#stop').isVisible(), true);
    assert.equal(await chip(page).count(), 0);
    gate.open();
    await page.waitForFunction(() => document.querySelector('.text').textContent === 'Once upon');
    gate.open();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'Once upon a time.');
    assert.equal(await chip(page).textContent(), 'Ended by <|im_end|>');
    assert.equal(await page.locator('.said').textContent(), 'Tell me a story.');
    assert.equal(await page.locator('.figures').textContent(), 'TTFT 4.2 ms381 tok/s3 tokens');
    assert.equal(await page.locator('#stop').isVisible(), false);
    assert.match(await page.locator('.tip').textContent(), /ends its turn.*Ruleend_token/);
  });

  for (const [way, stop] of [
    ['Esc', (page) => page.keyboard.press('Escape')],
    ['the button', (page) => page.locator('#stop').click()],
  ]) {
    chat(`is stopped by ${way}, with its last words`, { onGenerate: untilCancelled }, async (page, server) => {
      await say(page, 'Go on and on.');
      await lastAnswer(page).getByText('there was').waitFor();
      await stop(page);
      await chip(page).waitFor();
      assert.equal(await chip(page).textContent(), 'Stopped by you');
      assert.equal(await lastAnswer(page).textContent(), 'Once upon a time there was a gate.');
      assert.equal(server.frames.filter((frame) => frame.type === 'cancel').length, 1);
      assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
    });
  }

  const kEnds = [
    [{ rule: 'stop_string', matched: 'Human:' }, 'Stop string “Human:”'],
    [{ rule: 'stop_string', matched: '\n\n' }, 'Stop string “⏎⏎”'],
    [{ rule: 'max_new_tokens', reason: 'length', usage: { completion_tokens: 200 } }, 'Reached 200 tokens'],
    [{ rule: 'context_full', reason: 'length' }, 'Context full'],
    [{ rule: 'low_confidence' }, 'Lost confidence'],
    [{ rule: 'repetition' }, 'Repeated itself'],
    [{ rule: 'time_limit' }, 'Time limit'],
    [{ rule: 'cancelled', reason: 'cancelled', detail: 'the server is shutting down' }, 'Stopped by the server'],
    [{ rule: 'a_rule_of_tomorrow' }, 'Ended: a_rule_of_tomorrow'],
  ];
  chat('names every reason', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token('Text.');
      stream.end(kEnds[Number(stream.message)][0]);
    },
  }, async (page) => {
    for (const [index, [, label]] of kEnds.entries()) {
      await say(page, String(index));
      await chip(page).waitFor();
      assert.equal(await chip(page).textContent(), label);
    }
  });

  chat('shows the queue and the prefill before the first token', {
    onGenerate: async (stream) => {
      stream.heartbeat('queued', { queue_position: 4 });
      await waiting.passed(1);
      stream.accepted();
      stream.heartbeat('prefill', { prefill_done: 256, prefill_total: 900 });
      await waiting.passed(2);
      stream.token('Done.');
      stream.end();
    },
  }, async (page) => {
    await say(page, 'A long one');
    await page.locator('.progress').getByText('In the queue, 3 ahead of you').waitFor();
    waiting.open();
    await page.locator('.progress').getByText('Reading the prompt, 256 of 900 tokens').waitFor();
    assert.ok(await page.locator('.track').isVisible());
    waiting.open();
    await chip(page).waitFor();
    assert.equal(await page.locator('.progress').isVisible(), false);
  });
  const waiting = makeGate();

  const kHostile = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>\u202e</div> &amp; {{x}}';
  chat('and a message are text, whatever they hold', {
    hello: { ...kHello, model: kHostile },
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token(kHostile);
      if (stream.message === 'fail') stream.error('broken', kHostile);
      else stream.end({ rule: 'stop_string', matched: '<b>x</b>' });
    },
  }, async (page) => {
    await say(page, kHostile);
    await chip(page).waitFor();
    assert.equal(await page.locator('.said').textContent(), kHostile);
    assert.equal(await lastAnswer(page).textContent(), kHostile);
    assert.equal(await page.locator('#model-name').textContent(), kHostile);
    assert.equal(await chip(page).textContent(), 'Stop string “<b>x</b>”');
    await say(page, 'fail');
    await trouble(page).waitFor();
    assert.equal(await trouble(page).locator('p').textContent(), kHostile);
    assert.equal(await page.locator('main img, main script, main b:not(.figures b)').count(), 0);
    assert.equal(await page.evaluate(() => window.hurt), undefined);
  });

  const kSpaced = '  one\n\n\n    two\tthree  \n';
  const kLong = Array.from({ length: 6000 }, (_, i) => (i % 40 === 39 ? `line ${i}\n` : `word${i} `)).join('');
  chat('keeps its white space, and stays whole and light when it is long', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token(kSpaced);
      for (let i = 0; i < kLong.length; i += 7) stream.token(kLong.slice(i, i + 7));
      stream.end();
    },
  }, async (page) => {
    await say(page, 'Long');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kSpaced + kLong);
    assert.match(await lastAnswer(page).innerText(), /^ {2}one\n\n\n {4}two\tthree/);
    await page.waitForFunction(() => document.querySelectorAll('.fresh').length === 0);
    const nodes = await page.locator('.text *').count();
    assert.ok(nodes <= kLong.length / 1000, `${nodes} elements for ${kLong.length} characters`);
    assert.equal(await lastAnswer(page).textContent(), kSpaced + kLong);
  });

  chat('is read out in few pieces', {
    onGenerate: async (stream) => {
      stream.accepted();
      for (let i = 0; i < 300; i++) await stream.tokens(`Sentence ${i} ends.`, { pace: 1 });
      stream.end();
    },
  }, async (page) => {
    await page.evaluate(() => {
      window.spoken = 0;
      new MutationObserver((changes) => {
        for (const change of changes) window.spoken += change.addedNodes.length;
      }).observe(document.getElementById('announcer'), { childList: true });
    });
    await say(page, 'Speak');
    await chip(page).waitFor();
    const { spoken, seconds } = await page.evaluate(() => ({
      spoken: window.spoken, seconds: performance.now() / 1000,
    }));
    assert.ok(spoken >= 1 && spoken <= 2 + seconds / 3, `${spoken} announcements in ${seconds} s`);
    assert.match(await page.locator('#announcer').textContent(), /Ended by <\|im_end\|>/);
    assert.equal(await page.locator('#conversation[aria-live], #conversation [aria-live]').count(), 0);
  });
});

describe('a conversation', () => {
  chat('sends what was said before, and the system prompt first', {}, async (page, server) => {
    await page.locator('#open-settings').click();
    await page.locator('#set-system').fill('Be brief.');
    await page.keyboard.press('Escape');
    await say(page, 'First');
    await chip(page).waitFor();
    await say(page, 'Second');
    await page.getByText('You said: Second').first().waitFor();
    assert.deepEqual(server.requests[1].messages, [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'First' },
      { role: 'assistant', content: 'You said: First' },
      { role: 'user', content: 'Second' },
    ]);
  });

  chat('can be answered again with another seed, and edited', {}, async (page, server) => {
    await say(page, 'First');
    await chip(page).waitFor();
    await press(page, 'Regenerate');
    await page.waitForFunction(() => document.querySelector('.exchange.last .chip'));
    await prompt(page).fill('a draft');
    await page.getByRole('button', { name: 'Edit' }).click();
    assert.equal(await prompt(page).inputValue(), 'First');
    await say(page, 'Better');
    await page.locator('.said').getByText('Better').waitFor();
    await chip(page).waitFor();
    assert.equal(await page.locator('.exchange').count(), 1);
    assert.equal(await prompt(page).inputValue(), 'a draft');
    const [first, again, edited] = server.requests;
    assert.deepEqual(again.messages, first.messages);
    assert.notEqual(again.seed, first.seed);
    assert.deepEqual(edited.messages, [{ role: 'user', content: 'Better' }]);
  });

  chat('starts afresh, and can be brought back', { onGenerate: untilCancelled }, async (page, server) => {
    await say(page, 'Old');
    await lastAnswer(page).getByText('there was').waitFor();
    await page.locator('#new-chat').click();
    await page.locator('#welcome').waitFor();
    assert.equal(await page.locator('.exchange').count(), 0);
    assert.equal(server.frames.at(-1).type, 'cancel');
    await press(page, 'Bring it back');
    assert.equal(await page.locator('.said').textContent(), 'Old');
    await page.locator('#new-chat').click();
    await say(page, 'New');
    await lastAnswer(page).getByText('there was').waitFor();
    assert.deepEqual(server.requests.at(-1).messages, [{ role: 'user', content: 'New' }]);
  });

  chat('begins with a suggestion', {}, async (page, server) => {
    await page.getByRole('button', { name: 'Who are you?' }).click();
    await chip(page).waitFor();
    assert.equal(server.requests[0].messages[0].content, 'Who are you?');
  });

  chat('survives a reload, which the answer under way says', { onGenerate: untilCancelled }, async (page, server) => {
    server.onGenerate = async (stream) => { stream.accepted(); await stream.tokens('All of it'); stream.end(); };
    await say(page, 'First');
    await chip(page).waitFor();
    server.onGenerate = untilCancelled;
    await say(page, 'Second');
    await lastAnswer(page).getByText('there was').waitFor();
    await page.reload();
    await connected(page);
    assert.deepEqual(await page.locator('.said').allTextContents(), ['First', 'Second']);
    assert.equal(await page.locator('.chip').textContent(), 'Ended by <|im_end|>');
    assert.match(await trouble(page).textContent(), /reloaded/);
    await press(page, 'Try again');
    await page.waitForFunction(() => document.querySelector('.exchange.last .live .text')?.textContent === 'Once upon a time there was');
  });

  const tooLong = (limit) => async (stream) => {
    if (stream.request.messages.length > limit) {
      stream.error('prompt_too_long', 'The prompt has 700 tokens; this model takes at most 511 and one of output.');
      return;
    }
    stream.accepted();
    await stream.tokens('An answer.');
    stream.end();
  };
  chat('that no longer fits says so and forgets its oldest turns when told', { onGenerate: tooLong(3) }, async (page, server) => {
    for (const text of ['One', 'Two', 'Three']) {
      await say(page, text);
      await page.locator('.exchange.last .said').getByText(text).waitFor();
      await page.locator('.exchange.last :is(.chip, .trouble)').waitFor();
    }
    assert.match(await trouble(page).textContent(), /no longer fits.*The prompt has 700 tokens/);
    await press(page, 'Forget the oldest turns and go on');
    await chip(page).waitFor();
    assert.deepEqual(server.requests.at(-1).messages.map(({ content }) => content), ['Two', 'An answer.', 'Three']);
    assert.equal(await page.locator('.forgotten').count(), 1);
    assert.equal(await page.locator('.divider').count(), 1);
  });

  chat('makes room by itself when that is set', { onGenerate: tooLong(1) }, async (page, server) => {
    await page.locator('#open-settings').click();
    await page.locator('#set-makeRoom').check();
    await page.keyboard.press('Escape');
    await say(page, 'One');
    await chip(page).waitFor();
    await say(page, 'Two');
    await page.locator('.divider').waitFor();
    await chip(page).waitFor();
    assert.deepEqual(server.requests.at(-1).messages, [{ role: 'user', content: 'Two' }]);
  });

  chat('whose one message is too long can start anew or be edited', { onGenerate: tooLong(0) }, async (page) => {
    await say(page, 'A very long message');
    await trouble(page).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Forget the oldest' }).count(), 0);
    await press(page, 'Start a new chat with this message');
    assert.equal(await prompt(page).inputValue(), 'A very long message');
    assert.equal(await page.locator('.exchange').count(), 0);
  });
});

describe('the connection', () => {
  chat('returns by itself; a cut answer says so and is asked for again with its seed', {
    onGenerate: async (stream) => {
      stream.accepted();
      await stream.tokens('The first half');
      if (attempts++ === 0) stream.drop();
      else { await stream.tokens(' and the second.'); stream.end(); }
    },
  }, async (page, server) => {
    await prompt(page).fill('Go');
    await prompt(page).press('Enter');
    await prompt(page).fill('not sent yet');
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /connection broke before this answer was complete/);
    assert.equal(await lastAnswer(page).textContent(), 'The first half');
    await connected(page);
    assert.equal(await prompt(page).inputValue(), 'not sent yet');
    await press(page, 'Try again');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'The first half and the second.');
    assert.equal(server.requests[1].seed, server.requests[0].seed);
    assert.deepEqual(server.requests[1].messages, server.requests[0].messages);
  });
  let attempts = 0;

  chat('that is missing keeps the message, and says when it is back', { connect: true }, async (page, server) => {
    server.refusing = true;
    server.dropAll();
    await page.locator('#connection[data-state="waiting"]').waitFor();
    await say(page, 'Do not lose me');
    await page.locator('#notice').getByText('No connection to the server').waitFor();
    assert.equal(await prompt(page).inputValue(), 'Do not lose me');
    await page.reload();
    assert.equal(await prompt(page).inputValue(), 'Do not lose me');
    server.refusing = false;
    await connected(page);
    await prompt(page).press('Enter');
    await chip(page).waitFor();
    assert.equal(await prompt(page).inputValue(), '');
    assert.equal(server.requests.length, 1);
  });

  chat('is tried again at growing, random intervals, and at once when the network returns', {}, async (page) => {
    const { delays, afterOnline, afterHello } = await page.evaluate(async () => {
      const sockets = [];
      const delays = [];
      const realWebSocket = window.WebSocket;
      const realTimeout = window.setTimeout;
      window.WebSocket = class { constructor() { sockets.push(this); } close() {} };
      window.setTimeout = (work, delay) => { if (delay !== 10000) delays.push(delay); return 0; };
      const { Connection } = await import('/js/connection.js');
      const connection = new Connection('ws://nowhere/');
      connection.open();
      for (let i = 0; i < 8; i++) {
        sockets.at(-1).onclose();
        if (i < 7) connection.open();
      }
      const before = sockets.length;
      window.dispatchEvent(new Event('online'));
      const afterOnline = sockets.length - before;
      sockets.at(-1).onmessage({ data: '{"type":"hello"}' });
      const afterHello = connection.state;
      sockets.at(-1).onclose();
      window.WebSocket = realWebSocket;
      window.setTimeout = realTimeout;
      return { delays, afterOnline, afterHello };
    });
    const longest = [500, 1000, 2000, 4000, 8000, 15000, 15000, 15000, 500];
    assert.equal(delays.length, longest.length);
    longest.forEach((limit, i) => assert.ok(delays[i] >= limit / 2 && delays[i] <= limit, `${delays}`));
    assert.notEqual(delays[6], delays[7]);
    assert.equal(afterOnline, 1);
    assert.equal(afterHello, 'open');
  });

  chat('brings errors as sentences, in their place', {
    onGenerate: async (stream) => {
      if (refusals++ === 0) return stream.error('queue_full', 'The queue is full; try again in a moment.');
      stream.accepted();
      await stream.tokens('Now it works.');
      return stream.end();
    },
  }, async (page) => {
    await say(page, 'Hello');
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /The queue is full; try again in a moment\./);
    await press(page, 'Try again');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'Now it works.');
    assert.equal(await trouble(page).count(), 0);
  });
  let refusals = 0;
});

describe('the settings', () => {
  chat('start from the server, are checked, sent and remembered', {}, async (page, server) => {
    await page.locator('#open-settings').click();
    assert.equal(await page.locator('#set-temperature').getAttribute('placeholder'), '0.7');
    await page.locator('#set-temperature').fill('0,2');
    await page.locator('#set-top_k').fill('-4');
    assert.match(await page.locator('#set-top_k-wrong').textContent(), /Top-k is a whole number from 0/);
    await page.locator('#set-top_p').fill('0.5');
    await page.locator('#set-min_p').fill('0.1');
    await page.locator('#set-max_tokens').fill('77');
    await page.locator('#set-seed').fill('42');
    await page.locator('#set-stop').fill('Human:\n\\n\\n');
    await page.locator('#close-settings').click();
    assert.equal(await page.evaluate(() => document.activeElement.id), 'open-settings');
    await page.reload();
    await connected(page);
    await say(page, 'Go');
    await chip(page).waitFor();
    const { id, type, messages, ...options } = server.requests[0];
    assert.deepEqual(options, {
      temperature: 0.2, top_p: 0.5, min_p: 0.1, max_tokens: 77, seed: 42, stop: ['Human:', '\n\n'],
    });
    await page.locator('#open-settings').click();
    await press(page, 'Use the server’s defaults');
    await page.keyboard.press('Escape');
    await say(page, 'Go');
    await page.waitForFunction(() => document.querySelectorAll('.chip').length === 2);
    assert.deepEqual(Object.keys(server.requests[1]).sort(), ['id', 'messages', 'seed', 'type']);
  });

  chat('survive whatever stands in the storage', {}, async (page) => {
    await page.evaluate(() => {
      localStorage.setItem('sluice.settings', '{"temperature":"x","seed":{},"stop":7}');
      localStorage.setItem('sluice.draft', 'null');
      localStorage.setItem('sluice.theme', '<b>');
      sessionStorage.setItem('sluice.conversation', '[{"prompt":1},null]');
    });
    await page.reload();
    await connected(page);
    await say(page, 'Hello');
    await chip(page).waitFor();
  });
});

describe('the keyboard', () => {
  chat('is enough', { onGenerate: untilCancelled }, async (page, server) => {
    assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
    await page.locator('#scroller').focus();
    await page.keyboard.press('/');
    await page.keyboard.type('one');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('two/');
    assert.equal(await prompt(page).inputValue(), 'one\ntwo/');
    await page.keyboard.press('Enter');
    await lastAnswer(page).getByText('there was').waitFor();
    assert.equal(server.requests[0].messages[0].content, 'one\ntwo/');
    await page.keyboard.type('next');
    await page.keyboard.press('Enter');
    assert.equal(await prompt(page).inputValue(), 'next');
    assert.equal(server.requests.length, 1);
    await page.keyboard.press('Escape');
    await chip(page).waitFor();
    await chip(page).focus();
    await page.locator('.tip').waitFor();
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => getComputedStyle(document.querySelector('.tip')).visibility === 'hidden');
    await page.keyboard.press('Control+k');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
    await prompt(page).fill('');
    await page.keyboard.press('ArrowUp');
    assert.equal(await prompt(page).inputValue(), 'one\ntwo/');
    await page.keyboard.press('Escape');
    assert.equal(await prompt(page).inputValue(), '');
  });

  chat('reaches everything, and everything has a name', { onGenerate: async (stream) => { stream.accepted(); stream.token('Hi.'); stream.end(); } }, async (page) => {
    await say(page, 'Hello');
    await chip(page).waitFor();
    const reached = new Set();
    await page.evaluate(() => document.activeElement.blur());
    for (let i = 0; i < 16; i++) {
      await page.keyboard.press('Tab');
      reached.add(await page.evaluate(() => {
        const { id, className, textContent } = document.activeElement;
        return id || `${className}: ${textContent}`;
      }));
    }
    const names = [...reached].join(' | ');
    for (const name of ['new-chat', 'open-settings', 'toggle-theme', 'scroller', 'prompt', 'chip', 'Copy', 'Regenerate', 'Edit']) {
      assert.ok(names.includes(name), `${name} in ${names}`);
    }
    await page.locator('#open-settings').click();
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, textarea')]
      .filter((node) => !node.getAttribute('aria-label') && !node.textContent.trim() && !(node.labels?.length > 0))
      .map((node) => node.outerHTML));
    assert.deepEqual(nameless, []);
  });

  chat('types into an input method without sending', {}, async (page, server) => {
    await prompt(page).fill('にほん');
    await prompt(page).dispatchEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true });
    assert.equal(await prompt(page).inputValue(), 'にほん');
    assert.equal(server.requests.length, 0);
  });
});

describe('the look', () => {
  const kPhone = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true };

  async function fits(page) {
    return page.evaluate(() => {
      const box = document.getElementById('composer').getBoundingClientRect();
      return document.documentElement.scrollWidth <= screen.width && innerWidth <= screen.width
        && box.bottom <= screen.height && box.left >= 0 && box.right <= screen.width;
    });
  }

  chat('fits a phone in every state', { page: kPhone, onGenerate: async (stream) => {
    if (stream.message === 'fail') return stream.error('prompt_too_long', 'A sentence of some length that must be broken into several lines.');
    stream.accepted();
    await stream.tokens(`${'x'.repeat(300)} and ${'a long line '.repeat(40)}`);
    return stream.end();
  } }, async (page, server) => {
    assert.ok(await fits(page));
    await prompt(page).fill('Hello');
    await page.locator('#send').tap();
    await chip(page).waitFor();
    assert.ok(await fits(page));
    await prompt(page).fill('fail');
    await page.locator('#send').tap();
    await trouble(page).waitFor();
    assert.ok(await fits(page));
    await page.locator('#open-settings').tap();
    assert.ok(await fits(page));
    await page.locator('#close-settings').tap();
    const small = await page.evaluate(() => [...document.querySelectorAll('header button:enabled, .composer button, .actions button')]
      .filter((node) => node.offsetParent !== null)
      .map((node) => node.getBoundingClientRect())
      .filter(({ width, height }) => width < 36 || height < 40).length);
    assert.equal(small, 0);
    server.refusing = true;
    server.dropAll();
    await page.locator('#connection[data-state="waiting"]').waitFor();
    assert.ok(await fits(page));
  });

  chat('stays at the bottom only for who is there', {
    page: { viewport: { width: 1000, height: 500 } },
    onGenerate: async (stream) => {
      stream.accepted();
      await stream.tokens('A line of text.\n'.repeat(60));
      await more.passed(1);
      await stream.tokens('Another line.\n'.repeat(30));
      await more.passed(2);
      stream.end();
    },
  }, async (page) => {
    const fromBottom = () => page.evaluate(() => {
      const { scrollHeight, scrollTop, clientHeight } = document.getElementById('scroller');
      return scrollHeight - scrollTop - clientHeight;
    });
    await say(page, 'Scroll');
    await page.waitForFunction(() => document.querySelector('.text').textContent.length > 900);
    await page.waitForFunction(() => {
      const { scrollHeight, scrollTop, clientHeight } = document.getElementById('scroller');
      return scrollHeight - scrollTop - clientHeight < 2;
    });
    await page.locator('#scroller').hover();
    await page.mouse.wheel(0, -300);
    await page.locator('#jump').waitFor();
    const top = await page.evaluate(() => document.getElementById('scroller').scrollTop);
    more.open();
    await page.waitForFunction(() => document.querySelector('.text').textContent.includes('Another line'));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.equal(await page.evaluate(() => document.getElementById('scroller').scrollTop), top);
    await page.locator('#jump').click();
    assert.ok(await fromBottom() < 2);
    assert.equal(await page.locator('#jump').isVisible(), false);
    more.open();
    await chip(page).waitFor();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.ok(await fromBottom() < 2);
  });
  const more = makeGate();

  chat('follows the system, and remembers a choice', { page: { colorScheme: 'dark' } }, async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await ground(), 'rgb(13, 20, 19)');
    await page.locator('#toggle-theme').click();
    assert.equal(await ground(), 'rgb(245, 247, 246)');
    await page.reload();
    assert.equal(await ground(), 'rgb(245, 247, 246)');
    await page.locator('#toggle-theme').click();
    assert.equal(await ground(), 'rgb(13, 20, 19)');
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await ground(), 'rgb(245, 247, 246)', 'the page follows the system again');
  });

  for (const colorScheme of ['light', 'dark']) {
    chat(`has enough contrast when ${colorScheme}`, { page: { colorScheme } }, async (page) => {
      const poor = await page.evaluate(() => {
        const pairs = [['ink', 'ground'], ['ink', 'surface'], ['ink', 'sunken'], ['soft', 'ground'], ['soft', 'surface'],
          ['soft', 'sunken'], ['accent', 'ground'], ['accent', 'accent-wash'], ['accent-ink', 'accent'],
          ['warn', 'warn-wash'], ['warn', 'ground'], ['bad', 'bad-wash'], ['bad', 'surface'], ['ink', 'bad-wash'], ['ink', 'warn-wash']];
        const probe = document.createElement('i');
        document.body.append(probe);
        const luminance = (name) => {
          probe.style.color = `var(--${name})`;
          const channels = getComputedStyle(probe).color.match(/\d+/g).slice(0, 3).map((c) => {
            const share = c / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
        };
        const contrast = ([a, b]) => {
          const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
          return (light + 0.05) / (dark + 0.05);
        };
        return pairs.filter((pair) => contrast(pair) < 4.5).map((pair) => `${pair}: ${contrast(pair).toFixed(2)}`);
      });
      assert.deepEqual(poor, []);
    });
  }

  chat('does not move for who wants it still', { page: { reducedMotion: 'reduce' } }, async (page) => {
    await say(page, 'Still');
    await chip(page).waitFor();
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  });
});

test('the clipboard gets the whole answer', () => withPage({
  page: { permissions: ['clipboard-read', 'clipboard-write'] },
  onGenerate: async (stream) => { stream.accepted(); stream.token(' a\n\n b '); stream.end(); },
}, async (page) => {
  await say(page, 'Hello');
  await chip(page).waitFor();
  await press(page, 'Copy');
  await page.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), ' a\n\n b ');
}));

test('the scripts stay under 60 KiB and name no other host', async () => {
  const folder = new URL('../../static/', import.meta.url);
  const files = (await readdir(folder, { recursive: true })).filter((name) => /\.\w+$/.test(name));
  const texts = await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')));
  const scripts = texts.filter((_, i) => files[i].endsWith('.js')).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  assert.ok(scripts < 60 * 1024, `${scripts} bytes of scripts`);
  for (const [i, text] of texts.entries()) {
    const hosts = (text.match(/\bhttps?:\/\/[\w.]+/g) ?? []).filter((host) => host !== 'http://www.w3.org');
    assert.deepEqual(hosts, [], files[i]);
    if (files[i].endsWith('.html')) assert.doesNotMatch(text, /\sstyle=|\son\w+=|<script>|<style/);
  }
});
