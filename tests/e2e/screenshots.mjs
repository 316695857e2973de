// Pictures of the page for the documentation, made with the real server.
//
//   SLUICE_BIN=... SLUICE_MODEL=... node screenshots.mjs [folder]
//
// The page uses the fonts of the machine; the pictures show the ones found here.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connected, launchBrowser, openPage, say } from './support/browser.mjs';
import { keepBusy } from './support/client.mjs';
import { startServer, whyNot } from './support/real_server.mjs';

if (whyNot) throw new Error(whyNot);
const folder = process.argv[2] ?? fileURLToPath(new URL('../../docs/images/', import.meta.url));
await mkdir(folder, { recursive: true });
const server = await startServer();
const browser = await launchBrowser();

const kDesk = { viewport: { width: 1180, height: 760 } };
const kWide = { viewport: { width: 1440, height: 900 } };
const kPhone = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true };
const kSettings = { temperature: 0.6, top_p: 0.9, seed: 3 };

async function shoot(name, options, steps) {
  const page = await openPage(browser, server.url, { deviceScaleFactor: 1.5, settings: kSettings, ...options });
  await connected(page);
  const shown = await steps(page);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await shown();
  if (page.problems.length > 0) console.log(name, page.problems);
  await page.context().close();
}

/// One answer, and a second under way beside `others` streams, so that it is seen growing.
async function conversation(page, others = 60) {
  await say(page, 'Tell me a story about a cat and a boat.');
  await page.locator('.chip').waitFor();
  const rest = await keepBusy(server.url, others);
  await say(page, 'Another one, please!');
  await page.waitForFunction(() => document.querySelector('.turn:last-child .text')?.textContent.length > 170);
  return rest;
}

async function machine(page) {
  await page.locator('#toggleXray').click();
  const rest = await conversation(page, 12);
  await page.locator('#steps rect').nth(400).waitFor({ state: 'attached' });
  await page.locator('.turn:last-child .tokens .q3, .turn:last-child .tokens .q4').first().hover();
  return rest;
}

await shoot('chat-light', { ...kDesk, colorScheme: 'light' }, conversation);
await shoot('chat-dark', { ...kDesk, colorScheme: 'dark' }, conversation);
await shoot('chat-phone', kPhone, conversation);
await shoot('xray-light', { ...kWide, colorScheme: 'light' }, machine);
await shoot('xray-dark', { ...kWide, colorScheme: 'dark' }, machine);
await shoot('xray-phone', kPhone, machine);
await browser.close();
await server.stop();
