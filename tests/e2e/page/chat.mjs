// The page in a real browser, against a server that does what each test wants: answers,
// conversations, the connection, settings, the look.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe } from 'node:test';
import { connected, lastAnswer, say } from '../support/browser.mjs';
import { kHello } from '../support/mock_server.mjs';
import { chat, chip, makeGate, press, prompt, shows, trouble, untilCancelled } from '../support/page_steps.mjs';

describe('an answer', { concurrency: 3 }, () => {
  const gate = makeGate();
  chat('grows token by token, from the queue to the reason for its end', {
    onGenerate: async (stream) => {
      stream.heartbeat('queued', { queue_position: 4 });
      await gate.passed(1);
      stream.accepted();
      stream.heartbeat('prefill', { prefill_done: 256, prefill_total: 900 });
      await gate.passed(2);
      stream.token('Once');
      await gate.passed(3);
      stream.token(' upon');
      await gate.passed(4);
      stream.token(' a time.');
      stream.end();
    },
  }, async (page) => {
    await page.keyboard.type('Tell me');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('a story.');
    await page.keyboard.press('Enter');
    await page.locator('.progress').getByText('In the queue, 3 ahead of you').waitFor();
    gate.open();
    await page.locator('.progress').getByText('Reading the prompt, 256 of 900 tokens').waitFor();
    assert.ok(await page.locator('progress').isVisible());
    gate.open();
    await shows(page, 'Once');
    assert.equal(await page.locator('.progress').isVisible(), false);
    assert.equal(await page.locator('#stop').isVisible(), true);
    assert.equal(await chip(page).count(), 0);
    gate.open();
    await shows(page, 'Once upon');
    gate.open();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'Once upon a time.');
    assert.equal(await chip(page).textContent(), 'Ended by <|im_end|>');
    assert.equal(await page.locator('.said').textContent(), 'Tell me\na story.');
    assert.equal(await page.locator('.figures').textContent(), 'TTFT 4.2 ms381 tok/s3 tokens');
    assert.equal(await page.locator('#stop').isVisible(), false);
    assert.match(await page.locator('#announcer').textContent(), /Once upon a time\. Ended by <\|im_end\|>/);
  });

  chat('is paused, goes on, and is stopped with its last words', { onGenerate: untilCancelled }, async (page, server) => {
    await say(page, 'Go on and on.');
    await lastAnswer(page).getByText('there was').waitFor();
    await press(page, 'Pause');
    await page.locator('.figures').getByText('Paused').waitFor();
    await press(page, 'Continue');
    await prompt(page).fill('next');
    await prompt(page).press('Enter');
    assert.equal(await prompt(page).inputValue(), 'next', 'one answer at a time');
    await page.keyboard.press('Escape');
    await chip(page).waitFor();
    assert.equal(await chip(page).textContent(), 'Stopped by you');
    assert.equal(await lastAnswer(page).textContent(), 'Once upon a time there was a gate.');
    assert.deepEqual(server.frames.map(({ type }) => type), ['generate', 'pause', 'unpause', 'cancel']);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
  });

  const kHostile = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>\u202e</div> &amp; {{x}}';
  const kEnds = [
    [{ rule: 'stop_string', matched: '\n\n' }, 'Stop string ⏎⏎'],
    [{ rule: 'max_new_tokens', reason: 'length', usage: { completion_tokens: 200 } }, 'Reached 200 tokens'],
    [{ rule: 'low_confidence' }, 'Lost confidence'],
    [{ rule: 'cancelled', reason: 'cancelled', detail: 'cancelled by the client' }, 'Stopped in another tab'],
    [{ rule: 'cancelled', reason: 'cancelled', detail: 'the server is shutting down' }, 'Stopped by the server'],
    [{ rule: 'a_rule_of_tomorrow' }, 'Ended: a_rule_of_tomorrow'],
    [{ rule: 'stop_string', matched: '<b>x</b>' }, 'Stop string <b>x</b>'],
  ];
  chat('names every reason, and is text, whatever it holds', {
    hello: { ...kHello, model: kHostile },
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token(kHostile);
      if (stream.message === 'fail') stream.error('broken', kHostile);
      else stream.end(kEnds[Number(stream.message)][0]);
    },
  }, async (page) => {
    for (const [index, [, label]] of kEnds.entries()) {
      await say(page, String(index));
      await page.waitForFunction((n) => document.querySelectorAll('.chip').length > n, index);
      assert.equal(await chip(page).textContent(), label);
    }
    assert.equal(await lastAnswer(page).textContent(), kHostile);
    assert.equal(await page.locator('#model').textContent(), kHostile);
    await say(page, 'fail');
    await trouble(page).waitFor();
    assert.equal(await trouble(page).locator('p').textContent(), kHostile);
    assert.equal(await page.locator('main img, main script, main b:not(.figures b)').count(), 0);
    assert.equal(await page.evaluate(() => window.hurt), undefined);
  });

  const kSpaced = '  one\n\n\n    two\tthree  \n';
  const kLong = Array.from({ length: 4000 }, (_, i) => (i % 40 === 39 ? `line ${i}.\n` : `word${i} `)).join('');
  const more = makeGate();
  chat('stays whole and light when it is long, is read out in few pieces, and leaves readers in peace', {
    page: { viewport: { width: 1000, height: 500 } },
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token(kSpaced);
      for (let i = 0; i < kLong.length; i += 7) stream.token(kLong.slice(i, i + 7));
      await more.passed(1);
      await stream.tokens('Another line.\n'.repeat(30));
      stream.end();
    },
  }, async (page) => {
    await page.evaluate(() => {
      window.spoken = 0;
      new MutationObserver((changes) => {
        for (const change of changes) window.spoken += change.addedNodes.length;
      }).observe(document.getElementById('announcer'), { childList: true });
    });
    await say(page, 'Long');
    await shows(page, kSpaced + kLong);
    assert.match(await lastAnswer(page).innerText(), /^ {2}one\n\n\n {4}two\tthree/);
    const nodes = await page.locator('.text *').count();
    assert.ok(nodes <= kLong.length / 1000, `${nodes} elements for ${kLong.length} characters`);
    const fromBottom = () => page.evaluate(() => {
      const { scrollHeight, scrollTop, clientHeight } = document.getElementById('scroller');
      return scrollHeight - scrollTop - clientHeight;
    });
    assert.ok(await fromBottom() < 2);
    await page.locator('#scroller').hover();
    await page.mouse.wheel(0, -300);
    await page.locator('#jump').waitFor();
    const top = await page.evaluate(() => document.getElementById('scroller').scrollTop);
    more.open();
    await chip(page).waitFor();
    assert.equal(await page.evaluate(() => document.getElementById('scroller').scrollTop), top);
    await page.locator('#jump').click();
    assert.ok(await fromBottom() < 2);
    const { spoken, seconds } = await page.evaluate(() => ({ spoken: window.spoken, seconds: performance.now() / 1000 }));
    assert.ok(spoken >= 1 && spoken <= 2 + seconds / 3, `${spoken} announcements in ${seconds} s`);
    assert.equal(await page.locator('#conversation[aria-live], #conversation [aria-live]').count(), 0);
  });
});

describe('conversations', { concurrency: 3 }, () => {
  chat('are sent whole, edited, answered again, copied, exported, kept, deleted and brought back', {
    page: { permissions: ['clipboard-read', 'clipboard-write'], acceptDownloads: true },
  }, async (page, server) => {
    await page.locator('#openSettings').click();
    await page.locator('#set-system').fill('Be brief.');
    await page.keyboard.press('Escape');
    await say(page, 'First');
    await chip(page).waitFor();
    await say(page, 'Second');
    await shows(page, 'You said: Second');
    await chip(page).waitFor();
    assert.deepEqual(server.requests[1].messages, [
      { role: 'system', content: 'Be brief.' }, { role: 'user', content: 'First' },
      { role: 'assistant', content: 'You said: First' }, { role: 'user', content: 'Second' }]);

    await page.locator('.turn:last-child').getByRole('button', { name: 'Regenerate' }).click();
    await page.waitForFunction(() => document.querySelectorAll('.chip').length === 2);
    assert.deepEqual(server.requests[2].messages, server.requests[1].messages);
    assert.notEqual(server.requests[2].seed, server.requests[1].seed);
    await page.locator('.turn:last-child').getByRole('button', { name: 'Copy' }).click();
    await page.getByText('Copied').waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'You said: Second');

    await page.locator('.turn').first().getByRole('button', { name: 'Edit' }).click();
    assert.equal(await prompt(page).inputValue(), 'First');
    await press(page, 'Leave it as it was');
    assert.equal(await page.locator('.turn').count(), 2);
    await page.locator('.turn').first().getByRole('button', { name: 'Edit' }).click();
    await say(page, 'Better');
    await shows(page, 'You said: Better');
    await chip(page).waitFor();
    assert.equal(await page.locator('.turn').count(), 1);
    assert.deepEqual(server.requests[3].messages.slice(1), [{ role: 'user', content: 'Better' }]);

    const address = page.url();
    await page.reload();
    await shows(page, 'You said: Better');
    await page.locator('#newChat').click();
    await page.locator('#welcome').waitFor();
    await connected(page);
    await page.getByRole('button', { name: 'Who are you?' }).click();
    await shows(page, 'You said: Who are you?');
    await chip(page).waitFor();
    assert.notEqual(page.url(), address);
    await page.locator('#openHistory').click();
    await page.getByText('Kept in this browser alone.').waitFor();
    assert.deepEqual(await page.locator('#chats li span').allTextContents(), ['Who are you?', 'Better']);
    await page.locator('#chats').getByText('Better').click();
    await shows(page, 'You said: Better');
    assert.equal(page.url(), address);

    await page.locator('#openHistory').click();
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#export').click()]);
    assert.equal(download.suggestedFilename(), 'Better.md');
    assert.equal(await readFile(await download.path(), 'utf8'), '## You\n\nBetter\n\n## Answer\n\nYou said: Better\n');
    await page.getByTitle('Delete Better').click();
    await page.locator('#welcome').waitFor();
    await press(page, 'Bring it back');
    await shows(page, 'You said: Better');
  });

  chat('survive a browser without storage, and whatever stands in it', {}, async (page) => {
    await page.evaluate(async () => {
      localStorage.setItem('sluice.settings', '{"temperature":"x","seed":{},"stop":7,"markdown":false}');
      localStorage.setItem('sluice.draft', 'null');
      localStorage.setItem('sluice.theme', '"<b>"');
      const database = await new Promise((done) => { const r = indexedDB.open('sluice'); r.onsuccess = () => done(r.result); });
      const put = (chat) => new Promise((done) => { database.transaction('chats', 'readwrite').objectStore('chats').put(chat).onsuccess = done; });
      await put({ id: 'odd', at: 1, turns: [null, { prompt: 1 }] });
      location.hash = '#odd';
    });
    await page.reload();
    await connected(page);
    await say(page, 'Hello');
    await chip(page).waitFor();
    await page.addInitScript(() => {
      Object.defineProperty(window, 'indexedDB', { get() { throw new Error('closed'); } });
      Object.defineProperty(window, 'localStorage', { get() { throw new Error('closed'); } });
    });
    await page.reload();
    await page.locator('#welcome').waitFor();
    page.problems.length = 0;  // openPage's own use of the storage
    await connected(page);
    await say(page, 'Still here');
    await chip(page).waitFor();
    await page.locator('#openHistory').click();
    await page.getByText('This browser keeps no conversations.').waitFor();
  });

  const tooLong = (limit) => async (stream) => {
    if (stream.request.messages.length > limit) return stream.error('prompt_too_long', 'The prompt has 700 tokens; this model takes at most 511 and one of output.');
    stream.accepted();
    await stream.tokens('An answer.');
    return stream.end();
  };
  chat('that no longer fit say so and forget their oldest turns when told', { onGenerate: tooLong(3) }, async (page, server) => {
    for (const [n, text] of ['One', 'Two', 'Three'].entries()) {
      await say(page, text);
      await page.waitForFunction((wanted) => document.querySelectorAll('.chip, .trouble').length > wanted, n);
    }
    assert.match(await trouble(page).textContent(), /no longer fits.*The prompt has 700 tokens/);
    await press(page, 'Forget the oldest turns and go on');
    await chip(page).waitFor();
    assert.deepEqual(server.requests.at(-1).messages.map(({ content }) => content), ['Two', 'An answer.', 'Three']);
    assert.equal(await page.locator('.forgotten').count(), 1);
  });
});

describe('the connection', { concurrency: 3 }, () => {
  let attempts = 0;
  chat('returns by itself; what was not sent is kept, and what was lost is asked for again with its seed', {
    onGenerate: async (stream) => {
      stream.accepted();
      await stream.tokens('The first half');
      if (attempts++ === 0) stream.drop();
      else { await stream.tokens(' and the second.'); stream.end(); }
    },
  }, async (page, server) => {
    await say(page, 'Go');
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /Interrupted/);
    await connected(page);
    await press(page, 'Try again');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'The first half and the second.');
    assert.equal(server.requests[1].seed, server.requests[0].seed);

    server.refusing = true;
    server.dropAll();
    await page.locator('#connection[data-state="waiting"]').waitFor();
    await say(page, 'Do not lose me');
    await page.locator('#notice').getByText('No connection to the server').waitFor();
    await page.reload();
    assert.equal(await prompt(page).inputValue(), 'Do not lose me');
    server.refusing = false;
    await connected(page);
    await prompt(page).press('Enter');
    await shows(page, 'The first half and the second.');
    await page.waitForFunction(() => document.querySelectorAll('.chip').length === 2);
    assert.equal(await prompt(page).inputValue(), '');
  });

  chat('is tried again at growing, random intervals, and at once when the network returns', {}, async (page) => {
    await page.addInitScript(() => {
      window.sockets = [];
      window.delays = [];
      window.WebSocket = class { constructor() { window.sockets.push(this); } close() {} send() {} };
      const real = window.setTimeout;
      window.setTimeout = (work, delay) => (delay > 100 && delay !== 10000 ? window.delays.push(delay) : real(work, delay));
    });
    await page.reload();
    await page.waitForFunction(() => window.sockets.length === 1);
    const { delays, tries, state } = await page.evaluate(() => {
      const { sockets, delays } = window;
      for (let i = 0; i < 8; i++) {
        sockets.at(-1).onclose({});
        window.dispatchEvent(new Event('online'));
      }
      const tries = sockets.length;
      sockets.at(-1).onmessage({ data: '{"type":"hello"}' });
      const { state } = document.getElementById('connection').dataset;
      sockets.at(-1).onclose({});
      return { delays, tries, state };
    });
    const longest = [500, 1000, 2000, 4000, 8000, 15000, 15000, 15000, 500];
    assert.equal(delays.length, longest.length);
    longest.forEach((limit, i) => assert.ok(delays[i] >= limit / 2 && delays[i] <= limit, `${delays}`));
    assert.notEqual(delays[6], delays[7]);
    assert.equal(tries, 9);
    assert.equal(state, 'open');
  });
});

describe('the look', { concurrency: 3 }, () => {
  chat('follows the settings, the system and a choice', { page: { colorScheme: 'dark' } }, async (page, server) => {
    await page.locator('#openSettings').click();
    assert.equal(await page.locator('#set-temperature').getAttribute('placeholder'), '0.7');
    await page.locator('#set-top_k').fill('-4');
    assert.equal(await page.locator('#set-top_k').getAttribute('aria-invalid'), 'true');
    await page.locator('#set-top_k').fill('');
    const chosen = { temperature: 0.2, top_p: 0.5, min_p: 0.1, max_tokens: 77, seed: 42 };
    for (const [key, value] of Object.entries(chosen)) await page.locator(`#set-${key}`).fill(String(value));
    await page.locator('#set-stop').fill('Human:\n\\n\\n');
    await page.keyboard.press('Escape');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'openSettings');
    await page.reload();
    await connected(page);
    await say(page, 'Go');
    await chip(page).waitFor();
    const { id, type, messages, keep_ms: kept, ...options } = server.requests[0];
    assert.deepEqual(options, { ...chosen, stop: ['Human:', '\n\n'] });
    await page.locator('#openSettings').click();
    await press(page, 'Use the server’s defaults');
    await page.keyboard.press('Escape');
    await say(page, 'Go');
    await page.waitForFunction(() => document.querySelectorAll('.chip').length === 2);
    assert.deepEqual(Object.keys(server.requests[1]).sort(), ['id', 'keep_ms', 'messages', 'seed', 'type']);

    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await ground(), 'rgb(13, 20, 19)');
    await page.locator('#toggleTheme').click();
    await page.reload();
    assert.equal(await ground(), 'rgb(245, 247, 246)');
    await page.locator('#toggleTheme').click();
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await ground(), 'rgb(245, 247, 246)', 'the page follows the system again');
  });

  const kPhone = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true, reducedMotion: 'reduce' };
  chat('fits a phone in every state, and stands still for who wants it', { page: kPhone, onGenerate: async (stream) => {
    if (stream.message === 'fail') return stream.error('prompt_too_long', 'A sentence of some length that must be broken into several lines.');
    stream.accepted();
    await stream.tokens(`${'x'.repeat(300)} and ${'a long line '.repeat(40)}`);
    return stream.end();
  } }, async (page, server) => {
    const fits = () => page.evaluate(() => {
      const box = document.getElementById('composer').getBoundingClientRect();
      return document.documentElement.scrollWidth <= screen.width && innerWidth <= screen.width
        && box.bottom <= screen.height && box.left >= 0 && box.right <= screen.width;
    });
    assert.ok(await fits());
    await prompt(page).fill('Hello');
    await page.locator('#send').tap();
    await chip(page).waitFor();
    assert.ok(await fits());
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
    await prompt(page).fill('fail');
    await page.locator('#send').tap();
    await trouble(page).waitFor();
    assert.ok(await fits());
    const small = await page.evaluate(() => [...document.querySelectorAll('#bar button:enabled, #composer button, .actions button')]
      .filter((node) => node.offsetParent !== null && getComputedStyle(node).visibility === 'visible')
      .map((node) => node.getBoundingClientRect()).filter(({ width, height }) => width < 36 || height < 36).length);
    assert.equal(small, 0);
    await page.locator('#toggleXray').tap();
    await page.locator('#xray').waitFor();
    assert.ok(await fits());
    await page.locator('#openSettings').tap();
    assert.ok(await fits());
    await page.locator('#settings .close').tap();
    server.refusing = true;
    server.dropAll();
    await page.locator('#connection[data-state="waiting"]').waitFor();
    assert.ok(await fits());
  });
});
