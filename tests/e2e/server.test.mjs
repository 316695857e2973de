// The page and the real server together, in a real browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connected, lastAnswer, launchBrowser, openPage, say } from './support/browser.mjs';
import { keepBusy } from './support/client.mjs';
import { startServer, untilMetric, whyNot } from './support/real_server.mjs';

const kStory = 'Tell me a story about a cat and a boat.';
const kCompany = 32;  // streams beside the page's, where it is to be watched or interrupted
const kCrowd = 60;    // where it is to be interrupted again and again

test('the page talks to the real server', { skip: whyNot }, async (t) => {
  const server = await startServer();
  const browser = await launchBrowser();
  t.after(async () => { await browser.close(); assert.equal(await server.stop(), 0); });

  async function open(options) {
    const page = await openPage(browser, server.url, { settings: { markdown: false }, ...options });
    page.setDefaultTimeout(20000);
    await connected(page);
    return page;
  }

  /// The page with the settings that make answers repeatable.
  async function openGreedy(options) {
    const page = await open(options);
    await page.evaluate(() => localStorage.setItem('sluice.settings', JSON.stringify({ temperature: 0, seed: 7, markdown: false })));
    await page.reload();
    await connected(page);
    return page;
  }

  /// The page itself clicks, so that no answer is fast enough to end before.
  const clickAtFirstText = (page, selector) => page.evaluate((button) => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector('.text')?.textContent) return;
      observer.disconnect();
      document.querySelector(button).click();
    }).observe(document.getElementById('conversation'), { childList: true, subtree: true });
  }, selector);

  const chip = (page) => page.locator('.turn:last-child .chip');

  await t.test('text grows, and the reason shows', async () => {
    const page = await openGreedy();
    await page.evaluate(() => {
      window.lengths = [];
      new MutationObserver(() => {
        const length = document.querySelector('.text')?.textContent.length ?? 0;
        if (length !== window.lengths.at(-1)) window.lengths.push(length);
      }).observe(document.getElementById('conversation'), { childList: true, subtree: true, characterData: true });
    });
    const rest = await keepBusy(server.url, kCompany);
    await say(page, kStory);
    await chip(page).waitFor();
    await rest();
    const lengths = (await page.evaluate(() => window.lengths)).filter((length) => length > 0);
    assert.ok(lengths.length >= 5, `lengths seen: ${lengths}`);
    assert.deepEqual(lengths, lengths.toSorted((a, b) => a - b));
    assert.equal(await chip(page).textContent(), 'Ended by <|im_end|>');
    assert.match(await page.locator('.turn:last-child .figures').textContent(), /^TTFT [\d.]+ m?s[\d.]+ tok\/s\d+ tokens$/);
    assert.match(await lastAnswer(page).textContent(), /^Once upon a time/);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  await t.test('stop ends it, and the blocks come back', async () => {
    const page = await openGreedy();
    await clickAtFirstText(page, '#stop');
    const rest = await keepBusy(server.url, kCompany);
    await say(page, kStory);
    await chip(page).waitFor();
    await rest();
    assert.equal(await chip(page).textContent(), 'Stopped by you');
    assert.match(await lastAnswer(page).textContent(), /^Once/);
    await untilMetric(server, 'sluice_kv_blocks_used', 0);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  let whole = '';
  await t.test('reloads in the middle of an answer change nothing', async () => {
    const page = await openGreedy();
    const sent = [];
    page.on('websocket', (socket) => socket.on('framesent', ({ payload }) => sent.push(JSON.parse(payload).type)));
    await page.reload();
    await connected(page);
    await say(page, kStory);
    await chip(page).waitFor();
    whole = await lastAnswer(page).textContent();
    await page.locator('#newChat').click();
    const rest = await keepBusy(server.url, kCrowd);
    await say(page, kStory);
    for (let length = 0, reloads = 0; reloads < 3; reloads++) {
      await page.waitForFunction((before) => document.querySelector('.chip')
        || document.querySelector('.text')?.textContent.length > before, length);
      length = (await lastAnswer(page).textContent()).length;
      await page.reload();
    }
    await chip(page).waitFor();
    await rest();
    assert.equal(await lastAnswer(page).textContent(), whole);
    assert.ok(sent.includes('resume'), sent.join(', '));
    await untilMetric(server, 'sluice_kv_blocks_used', 0);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  await t.test('a pause changes nothing but the time', async () => {
    const page = await openGreedy();
    await clickAtFirstText(page, '.live .actions .tool');
    const rest = await keepBusy(server.url, kCompany);
    await say(page, kStory);
    await page.locator('.figures').getByText('Paused').waitFor();
    await page.reload();
    await page.locator('.figures').getByText('Paused').waitFor();
    await connected(page);
    await rest();
    const before = await lastAnswer(page).textContent();
    assert.ok(before.length > 0 && before.length < whole.length && whole.startsWith(before), before);
    await page.getByRole('button', { name: 'Continue' }).click();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), whole);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  await t.test('a second turn remembers the first', async () => {
    const page = await open();
    const frames = { sent: [], received: [] };
    page.on('websocket', (socket) => {
      socket.on('framesent', ({ payload }) => frames.sent.push(JSON.parse(payload)));
      socket.on('framereceived', ({ payload }) => frames.received.push(JSON.parse(payload)));
    });
    await page.reload();
    await connected(page);
    await say(page, 'Hello!');
    await chip(page).waitFor();
    const first = await lastAnswer(page).textContent();
    await say(page, 'Who are you?');
    await page.locator('.turn:nth-child(2) .chip').waitFor();
    const [one, two] = frames.sent.filter(({ type }) => type === 'generate');
    assert.deepEqual(two.messages, [...one.messages, { role: 'assistant', content: first }, { role: 'user', content: 'Who are you?' }]);
    const prompts = frames.received.filter(({ type }) => type === 'accepted').map((frame) => frame.prompt_tokens);
    assert.ok(prompts[1] > prompts[0], `prompt tokens: ${prompts}`);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  await t.test('a page that goes away leaves nothing behind', async () => {
    const page = await openGreedy();
    const rest = await keepBusy(server.url, kCompany);
    await say(page, kStory);
    await lastAnswer(page).getByText('Once').waitFor();
    await page.context().close();
    await rest();
    await untilMetric(server, 'sluice_kv_blocks_used', 0);
  });

  await t.test('a conversation beyond the context goes on when the oldest turns are forgotten', async () => {
    const page = await openGreedy();
    const size = (await (await fetch(`${server.url}/v1/plan`)).json()).context_length;
    await say(page, 'a tiny frog '.repeat(Math.floor(size / 6)));
    await page.locator('.turn:last-child :is(.chip, .trouble)').waitFor();
    await say(page, 'a small moon '.repeat(Math.floor(size / 5)));
    await page.locator('.turn:nth-child(2) .trouble').waitFor();
    await page.getByRole('button', { name: 'Forget the oldest turns' }).click();
    await page.locator('.turn:nth-child(2) .chip').waitFor();
    assert.equal(await page.locator('.forgotten').count(), 1);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
});
