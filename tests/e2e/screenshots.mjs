// Pictures of the page.
//
//   node screenshots.mjs [folder]       chat-light.png, chat-dark.png and chat-phone.png for the
//                                       documentation: the real server (SLUICE_BIN, SLUICE_MODEL)
//   node screenshots.mjs --all folder [part of a name]
//                                       every state, for looking at: the mock server
//
// The page uses the fonts of the machine; the pictures show the ones found here.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connected, launchBrowser, openPage, say } from './support/browser.mjs';
import { keepBusy } from './support/client.mjs';
import { startMock } from './support/mock_server.mjs';
import { startServer, whyNot } from './support/real_server.mjs';

const kStory = `Once upon a time, there was a little cat named Tom who lived beside a wide, slow river. Every morning he sat on the bank and watched the boats go by.

One day a small red boat came close to the shore. "Would you like to see the sea?" asked the old man in it. Tom looked at the water, and then at his warm spot in the grass.

"Only if we are home for supper," said the cat. The old man laughed, and Tom jumped in.`;
const kSecond = 'The boat went under a bridge, past the mill and through the great gate where the river becomes wide. Tom held on to the rope with both paws and';

const all = process.argv[2] === '--all';
const folder = (all ? process.argv[3] : process.argv[2])
  ?? fileURLToPath(new URL('../../docs/images/', import.meta.url));

if (!all && whyNot) throw new Error(whyNot);
const server = all ? await startMock({ onGenerate: script }) : await startServer();
const browser = await launchBrowser();
await mkdir(folder, { recursive: true });

async function script(stream) {
  const { message } = stream;
  if (message.startsWith('Queue')) { stream.heartbeat('queued', { queue_position: 4 }); await stream.whenCancelled; return stream.end(); }
  if (message.startsWith('Long prompt')) {
    stream.accepted();
    stream.heartbeat('prefill', { prefill_done: 256, prefill_total: 412 });
    await stream.whenCancelled;
    return stream.end();
  }
  if (message.startsWith('Too long')) return stream.error('prompt_too_long', 'The prompt has 700 tokens; this model takes at most 511 and one of output.');
  if (message.startsWith('Full')) return stream.error('queue_full', 'The queue is full (1024 waiting); try again in a moment.');
  stream.accepted();
  if (message.includes('next') || message.startsWith('Cut')) {
    await stream.tokens(kSecond, { pace: 25 });
    if (message.startsWith('Cut')) return stream.drop();
    await stream.whenCancelled;
    return stream.end();
  }
  if (message.includes('Who')) await stream.tokens('I am a little story teller. I was trained on simple stories, so please do not ask me hard questions.', { pace: 3 });
  else await stream.tokens(kStory, { pace: 4 });
  return stream.end(message.includes('moon') ? { rule: 'max_new_tokens', reason: 'length', matched: '' } : {});
}

async function shoot(name, options, steps) {
  if (all && !name.includes(process.argv[4] ?? '')) return;
  const page = await openPage(browser, server.url, { deviceScaleFactor: 1.5, ...options });
  await connected(page);
  const shown = await steps(page);
  if (all) await page.waitForTimeout(700);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await shown?.();
  if (page.problems.length > 0) console.log(name, page.problems);
  await page.context().close();
}

const finished = (page, n = 1) => page.locator('.chip').nth(n - 1).waitFor();
const kDesk = { viewport: { width: 1180, height: 760 } };
const kTablet = { viewport: { width: 820, height: 1080 }, isMobile: true, hasTouch: true };
const kPhone = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true };

/// One answer, and a second under way beside other streams, so that it is seen growing.
async function conversation(page) {
  const settings = { temperature: 0.6, top_p: 0.9, seed: 3 };
  await page.evaluate((text) => localStorage.setItem('sluice.settings', text), JSON.stringify(settings));
  await page.reload();
  await connected(page);
  await say(page, 'Tell me a story about a cat and a boat.');
  await finished(page);
  const rest = await keepBusy(server.url, 60);
  await say(page, 'Another one, please!');
  await page.waitForFunction(() => document.querySelector('.last .text')?.textContent.length > 170);
  return rest;
}

if (!all) {
  await shoot('chat-light', { ...kDesk, colorScheme: 'light' }, conversation);
  await shoot('chat-dark', { ...kDesk, colorScheme: 'dark' }, conversation);
  await shoot('chat-phone', kPhone, conversation);
} else {
  await shoot('flow', kDesk, async (page) => {
    await say(page, 'Tell me a story about a cat and a boat.');
    await finished(page);
    await say(page, 'What happened next?');
    await page.locator('#conversation').getByText('both paws').waitFor();
  });
  for (const colorScheme of ['light', 'dark']) {
    await shoot(`empty-${colorScheme}`, { ...kDesk, colorScheme }, async () => {});
    await shoot(`settings-${colorScheme}`, { ...kDesk, colorScheme }, async (page) => {
      await page.locator('#open-settings').click();
      await page.locator('#set-top_k').fill('-4');
    });
    await shoot(`error-${colorScheme}`, { ...kDesk, colorScheme }, async (page) => {
      await say(page, 'Who are you?');
      await finished(page);
      await say(page, 'Too long, I fear.');
      await page.locator('.trouble').waitFor();
    });
    await shoot(`cut-${colorScheme}`, { ...kDesk, colorScheme }, async (page) => {
      await say(page, 'Cut this one off.');
      await page.locator('.trouble').waitFor();
      server.refusing = true;
      server.dropAll();
      await page.locator('#connection[data-state="waiting"]').waitFor();
      await say(page, 'A message without a connection');
      return () => { server.refusing = false; };
    });
    await shoot(`paused-${colorScheme}`, { ...kDesk, colorScheme }, async (page) => {
      await say(page, 'What happened next?');
      await page.locator('#conversation').getByText('the mill').waitFor();
      await page.keyboard.press('Alt+p');
    });
    await shoot(`lost-${colorScheme}`, { ...kTablet, colorScheme }, async (page) => {
      await say(page, 'What happened next?');
      await page.locator('#conversation').getByText('the mill').waitFor();
      server.refusing = true;
      server.dropAll();
      await page.getByText('Connection lost.').waitFor();
      return () => { server.refusing = false; };
    });
    await shoot(`tip-${colorScheme}`, { ...kDesk, colorScheme }, async (page) => {
      await say(page, 'A story with a moon');
      await finished(page);
      await page.locator('.chip').hover();
    });
    await shoot(`prefill-${colorScheme}`, { ...kDesk, colorScheme }, async (page) => {
      await say(page, 'Long prompt, please wait.');
      await page.locator('.track').waitFor();
    });
    await shoot(`queue-${colorScheme}`, { ...kPhone, colorScheme }, async (page) => {
      await say(page, 'Queue me.');
      await page.locator('#conversation').getByText('ahead of you').waitFor();
    });
    await shoot(`phone-empty-${colorScheme}`, { ...kPhone, colorScheme }, async () => {});
  }
  await shoot('jump', kDesk, async (page) => {
    for (const text of ['A first story', 'A second one']) await say(page, text).then(() => page.waitForTimeout(1500));
    await page.locator('#scroller').hover();
    await page.mouse.wheel(0, -500);
  });
  await shoot('stopped', kDesk, async (page) => {
    await say(page, 'And the next?');
    await page.locator('#conversation').getByText('wide').waitFor();
    await page.keyboard.press('Escape');
    await finished(page);
  });
  await shoot('phone-flow', kPhone, async (page) => { await say(page, 'What happened next?'); await page.locator('#conversation').getByText('both paws').waitFor(); });
  await shoot('tablet', kTablet, async (page) => { await say(page, 'Who are you?'); await finished(page); });
  await shoot('phone-settings', kPhone, async (page) => { await page.locator('#open-settings').click(); });
  await shoot('phone-error', kPhone, async (page) => { await say(page, 'Who are you?'); await finished(page); await say(page, 'Too long'); await page.locator('.trouble').waitFor(); });
}

await browser.close();
await (all ? server.close() : server.stop());
