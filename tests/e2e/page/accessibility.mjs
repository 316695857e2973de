// What axe-core finds in each state of the page: nothing serious.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { describe } from 'node:test';
import { say } from '../support/browser.mjs';
import { chat, chip, trouble } from '../support/page_steps.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/// Serious and critical issues, one line each.
async function issues(page, state) {
  const found = await page.evaluate(async () => {
    for (const animation of document.getAnimations()) {
      if (animation.effect.getComputedTiming().iterations !== Infinity) animation.finish();
    }
    const { violations } = await window.axe.run({ resultTypes: ['violations'] });
    return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ target, any }) => `${target} ${any[0]?.message ?? ''}`).join(', ')}`);
  });
  return found.map((line) => `${state}: ${line}`);
}

const kText = 'Once upon a time.\n\n```js\nconst x = 1; // one\n```\n\n| a |\n|---|\n| [b](https://example.org) |\n';

async function script(stream) {
  if (stream.message === 'too long') return stream.error('prompt_too_long', 'The prompt has 700 tokens.');
  stream.heartbeat('prefill', { prefill_done: 256, prefill_total: 900 });
  if (stream.message === 'wait') await stream.whenCancelled;
  stream.accepted();
  let logprob = 0;
  for (const text of kText.match(/[^]{1,6}/g)) stream.token(text, { logprob: logprob -= 0.2, top: [{ id: 1, text, logprob }, { id: 2, text: 'x', logprob: -9 }] });
  if (stream.message === 'on and on') await stream.whenCancelled;
  return stream.end(stream.message === 'limit' ? { rule: 'max_new_tokens', reason: 'length' } : {});
}

const stats = (ids) => ({
  waiting: 0, running: 1, step: 1, prompt_tokens: 1, generated_tokens: 1, preemptions: 0, sequences: [],
  kv: { total: 64, used: 2, cached: 4, block_size: 16, prefix_queries: 1, prefix_hits: 0, evictions: 0, map: [[2, 1, 7], [4, -1, 0], [58, 0, 0]], map_left_out: 0 },
  steps: [{ number: 1, ms: 1, slices: [[7, 1, 1]] }], actors: [{ name: 'scheduler', mailbox: 0 }],
  streams: Object.fromEntries(ids.map((id) => [id, { sequence: 7, held: ' Hum' }])),
});

const kPhone = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true };
describe('axe finds nothing serious', { concurrency: 2 }, () => {
  for (const [name, options] of [['light', {}], ['dark on a phone', { colorScheme: 'dark', ...kPhone }]]) {
    chat(`a screen reader finds its way when it is ${name}`, { onGenerate: script, page: options, markdown: true }, async (page, server) => {
      server.stats = stats;
      await page.evaluate(axe);
      const found = await issues(page, 'empty');
      const look = async (state) => found.push(...await issues(page, state));
      await page.locator('#openSettings').click();
      await page.locator('#set-top_k').fill('-4');
      await look('settings');
      await page.keyboard.press('Escape');
      await say(page, 'wait');
      await page.locator('.progress progress').waitFor();
      await look('prefill');
      await page.keyboard.press('Escape');
      await chip(page).waitFor();
      await say(page, 'limit');
      await page.waitForFunction(() => document.querySelectorAll('.chip').length === 2);
      await page.locator('.turn:last-child .hljs-keyword').waitFor();
      await look('answers');
      await page.locator('#openHistory').click();
      await page.locator('#chats li').waitFor();
      await look('conversations');
      await page.keyboard.press('Escape');
      await say(page, 'too long');
      await trouble(page).waitFor();
      await look('refused');
      await page.locator('#toggleXray').click();
      await say(page, 'on and on');
      await page.locator('.held').getByText('Hum').first().waitFor();
      await page.locator('.turn:last-child .tokens').focus();
      await page.keyboard.press('ArrowRight');
      await page.locator('#tip').waitFor();
      await look('x-ray');
      server.refusing = true;
      server.dropAll();
      await page.getByText('Connection lost.').waitFor();
      await look('lost');
      assert.deepEqual(found, []);
    });
  }
});

chat('the keyboard reaches everything, and everything has a name', {}, async (page) => {
  await say(page, 'Hello');
  await chip(page).waitFor();
  const reached = new Set();
  await page.evaluate(() => document.activeElement.blur());
  for (let i = 0; i < 16; i++) {
    await page.keyboard.press('Tab');
    reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.title || document.activeElement.className));
  }
  for (const name of ['openHistory', 'newChat', 'toggleXray', 'openSettings', 'toggleTheme', 'scroller', 'prompt', 'Edit', 'Copy', 'Regenerate']) {
    assert.ok(reached.has(name), `${name} in ${[...reached].join(' | ')}`);
  }
  await page.locator('#openSettings').click();
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, textarea')]
    .filter((node) => !node.title && !node.textContent.trim() && !(node.labels?.length > 0)).map((node) => node.outerHTML));
  assert.deepEqual(nameless, []);
  await page.keyboard.press('Escape');
  await page.locator('#prompt').fill('にほん');
  await page.locator('#prompt').dispatchEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true });
  assert.equal(await page.locator('#prompt').inputValue(), 'にほん', 'an input method is typing');
  await page.locator('#scroller').focus();
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
});
