// A headless Chromium that reports what a page must not do.

import { chromium } from 'playwright-core';

export function launchBrowser() {
  return chromium.launch({
    executablePath: process.env.SLUICE_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
}

/// A fresh page at `url`, with `settings` as if chosen before. `page.problems` collects console errors, exceptions, violations of the
/// Content-Security-Policy and requests to other hosts.
export async function openPage(browser, url, { settings = {}, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(`exception: ${error.message}`));
  page.on('console', (message) => {
    const expected = /WebSocket connection to .* failed/.test(message.text());
    if (message.type() === 'error' && !expected) page.problems.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const { host, protocol } = new URL(request.url());
    if (host !== new URL(url).host && protocol !== 'data:') page.problems.push(`request: ${request.url()}`);
  });
  await page.addInitScript((chosen) => {
    if (location.protocol === 'about:') return;
    if (!localStorage.getItem('sluice.settings')) localStorage.setItem('sluice.settings', JSON.stringify(chosen));
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  }, settings);
  await page.goto(url);
  return page;
}

export async function connected(page) {
  await page.locator('#connection[data-state="open"]').waitFor();
}

/// The answer of the last exchange.
export const lastAnswer = (page) => page.locator('.turn:last-child .text');

export async function say(page, text) {
  await page.locator('#prompt').fill(text);
  await page.locator('#prompt').press('Enter');
}
