// Markdown from a hostile model, and X-ray.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { lastAnswer, say } from '../support/browser.mjs';
import { chat, chip, makeGate, shows } from '../support/page_steps.mjs';

const kGood = `# Title

Some **bold**, *thin* and \`code\`, see <https://example.org/x> and [there](https://example.org "t").

\`\`\`js
const x = '<b>'; // a comment
\`\`\`

1. one
2. two
   - deep

| a | b |
|---|--:|
| 1 | 2 |

> quoted [ref]

[ref]: https://example.org/ref`;

// Each would set window.hurt, load something, or leave the answer's box.
const kAttacks = [
  '<script>window.hurt=1</script>', '<img src=x onerror=window.hurt=1>', '<svg onload=window.hurt=1><g/></svg>',
  '<svg><use href="data:image/svg+xml,<svg id=x onload=window.hurt=1>#x"/></svg>', '[a](javascript:window.hurt=1)', '[a](JaVa&#115;cript:window.hurt=1)',
  '[a](java\tscript:window.hurt=1)', '[a](data:text/html,<script>window.hurt=1</script>)', '[a](vbscript:x)', '[a](//evil.example/x)', '[a](#settings)',
  '![x](https://evil.example/pixel.png)', '![x" onerror="window.hurt=1](x)', '![x](javascript:window.hurt=1)', '![a]("onerror="window.hurt=1)',
  '<style>body{display:none}</style>', '<p style="position:fixed;inset:0">x</p>', '<link rel=stylesheet href=//evil.example/x.css>',
  '<form action=//evil.example><input name=q><button>Go</button></form>', '<iframe src="javascript:parent.hurt=1"></iframe>', '<iframe srcdoc="<script>parent.hurt=1</script>"></iframe>',
  '<object data="data:text/html,x"></object>', '<embed src=x>', '<base href=//evil.example>', '<meta http-equiv=refresh content="0;url=//evil.example">',
  '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.hurt=1&gt;">', '<math><mi//xlink:href="data:x,<script>window.hurt=1</script>">',
  '<noscript><p title="</noscript><img src=x onerror=window.hurt=1>">', '<svg></p><style><a id="</style><img src=1 onerror=window.hurt=1>">',
  '<form><math><mtext></form><form><mglyph><style></math><img src onerror=window.hurt=1>', '<template><img src=x onerror=window.hurt=1></template>',
  '<a href="https://a.example" onclick="window.hurt=1" class="tool" id="prompt">x</a>', '<div id="announcer" class="notice">You were logged out</div>',
  '```html"><img src=x onerror=window.hurt=1>\n<script>window.hurt=1</script>\n```', '`<img src=x onerror=window.hurt=1>`', '~~~js onload=window.hurt=1\n</code></pre><script>window.hurt=1</script>\n~~~',
  '| a |\n|---|\n| <img src=x onerror=window.hurt=1> |', '[x]: javascript:window.hurt=1\n\n[x]', '<!-- <img src=x onerror=window.hurt=1> -->', '<a href="&#1;javascript:window.hurt=1">x</a>',
  '&lt;img src=x onerror=window.hurt=1&gt;', '<xss onpointerrawupdate=window.hurt=1>', '<details open ontoggle=window.hurt=1>', '<video><source onerror=window.hurt=1></video>', '<input autofocus onfocus=window.hurt=1>',
];

const kAllowed = 'p br hr h1 h2 h3 h4 h5 h6 em strong del code pre blockquote ul ol li a table thead tbody tr th td div span button svg path'.split(' ');

describe('Markdown', { concurrency: 3 }, () => {
  chat('is shown as such, coloured, and made the same way at once or piece by piece', { markdown: true, onGenerate: async (stream) => {
    stream.accepted();
    for (const piece of stream.message === 'slowly' ? kGood.match(/[^]{1,7}/g) : [kGood]) {
      stream.token(piece);
      if (stream.message === 'slowly') await new Promise((resume) => { setTimeout(resume, 4); });
    }
    stream.end();
  } }, async (page) => {
    for (const way of ['slowly', 'at once']) {
      await say(page, way);
      await page.waitForFunction((n) => document.querySelectorAll('.chip').length > n, way === 'slowly' ? 0 : 1);
    }
    await page.locator('.turn:last-child .hljs-keyword').waitFor();
    const html = await page.evaluate(() => [...document.querySelectorAll('.text')].map((node) => node.innerHTML));
    assert.equal(html[0], html[1]);
    const text = lastAnswer(page);
    assert.equal(await text.locator('h1').textContent(), 'Title');
    assert.equal(await text.locator('strong').textContent(), 'bold');
    assert.equal(await text.locator('pre code').textContent(), 'const x = \'<b>\'; // a comment\n');
    assert.equal(await text.locator('ol > li').count(), 2);
    assert.deepEqual(await text.locator('td').allTextContents(), ['1', '2']);
    assert.equal(await text.locator('blockquote a').getAttribute('href'), 'https://example.org/ref');
    assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('.text a')].filter((a) => a.rel !== 'noopener noreferrer' || a.target !== '_blank').length), 0);
    assert.equal(await text.locator('script, style, img').count(), 0);
  });

  chat('does no harm, whatever is tried', { markdown: true, onGenerate: async (stream) => {
    stream.accepted();
    stream.token(kAttacks[Number(stream.message)] ?? kAttacks.join('\n\n'));
    stream.end();
  } }, async (page) => {
    for (let i = 0; i <= kAttacks.length; i++) {
      await say(page, String(i));
      await page.waitForFunction((n) => document.querySelectorAll('.chip').length > n, i);
    }
    const { strange, attributes, links, hurt } = await page.evaluate((allowed) => {
      const nodes = [...document.querySelectorAll('.text *')];
      return {
        hurt: window.hurt,
        strange: nodes.filter(({ localName }) => !allowed.includes(localName)).map((node) => node.outerHTML),
        attributes: nodes.flatMap((node) => [...node.attributes].map(({ name, value }) => `${name}=${value}`))
          .filter((each) => /^(on|style|src|id|name|action|formaction|xlink|data-(?!busy))/.test(each) && !each.startsWith('id=')),
        links: nodes.filter(({ localName }) => localName === 'a').map((a) => a.getAttribute('href')).filter((href) => href !== null && !/^(https?:\/\/|mailto:)/.test(href)),
      };
    }, kAllowed);
    assert.equal(hurt, undefined);
    assert.deepEqual(strange, []);
    assert.deepEqual(attributes, []);
    assert.deepEqual(links, []);
    assert.equal(await page.locator('.text [id]').count(), 0);
    assert.equal(await page.locator('.text .notice').count(), 0);
    assert.equal(await page.locator('.turn').count(), kAttacks.length + 1);
    assert.ok(await page.locator('#composer').isVisible());
    assert.match(await lastAnswer(page).textContent(), /<script>window\.hurt=1<\/script>/, 'HTML is shown as text');
  });
});

chat('an answer is plain text where the build found no libraries', { page: { settings: { markdown: true } } }, async (page, server) => {
  server.vendor = '/nowhere';
  await page.reload();
  await say(page, '**x** <b>');
  await shows(page, 'You said: **x** <b>');
  assert.ok(page.problems.every((problem) => /status of 404/.test(problem)), page.problems.join());
  page.problems.length = 0;
});

describe('X-ray', { concurrency: 3 }, () => {
  const gate = makeGate();
  const top = (...rows) => rows.map(([text, logprob], id) => ({ id, text, logprob }));
  chat('shows the tokens, what is held back, and the machine; and asks for nothing when closed', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token('Once', { logprob: -0.01, top: top(['Once', -0.01], ['The', -5]) });
      stream.token(' upon', { logprob: -4, top: top([' there', -0.2], [' in', -1.8]) });
      stream.token('\n', { logprob: -0.5 });
      await gate.passed(1);
      stream.end({ rule: 'stop_string', matched: 'Human:', position: 10 });
    },
  }, async (page, server) => {
    let number = 0;
    let phase = 'prefill';
    server.stats = (ids) => ({
      waiting: 1, running: 2, step: ++number, prompt_tokens: 1, generated_tokens: 1, preemptions: 0,
      kv: { total: 64, used: 10, cached: 4, block_size: 16, prefix_queries: 40, prefix_hits: 32, evictions: 0, map: [[2, 2, 7], [8, 1, 8], [4, -1, 0], [50, 0, 0]], map_left_out: 0 },
      sequences: [{ sequence: 7, phase, queue_position: 0, computed: 16, total: 40, credit: 3 }],
      steps: [{ number, ms: 1.5, slices: [[7, 1, 1], [8, 20, 0]] }],
      actors: [{ name: 'scheduler', mailbox: 2 }, { name: 'executor', mailbox: 0, busy: true }, { name: 'session', mailbox: 3, sequence: 7 }],
      streams: Object.fromEntries(ids.map((id) => [id, { sequence: 7, held: ' Hum' }])),
    });
    await page.waitForTimeout(100);
    assert.deepEqual(server.frames, [], 'no statistics unless X-ray is open');
    await page.keyboard.press('Alt+x');
    assert.equal(await page.locator('#toggleXray').getAttribute('aria-pressed'), 'true');
    await page.locator('#stepsText').getByText('2 sequences, 21 tokens').waitFor();
    await say(page, 'Go');
    await page.locator('.held').getByText('Hum').first().waitFor();
    assert.equal(server.requests[0].top_logprobs, 5);
    await page.locator('#facts').getByText('16 of 40 positions').waitFor();
    assert.deepEqual(await page.locator('#facts progress').evaluate((bar) => [bar.value, bar.max]), [16, 40]);
    phase = 'decode';
    await page.locator('#facts progress').waitFor({ state: 'detached' });
    assert.deepEqual(await page.locator('.tokens span:not(.held)').evaluateAll((nodes) => nodes.map((node) => [node.className, node.textContent])),
      [['q0', 'Once'], ['q4', ' upon'], ['q1', '\n']]);

    await page.locator('.tokens').focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    assert.deepEqual(await page.locator('#tip code').allTextContents(), ['␣upon', '␣there', '␣in']);
    assert.equal(await page.locator('#tip .drawn code').textContent(), '␣upon');
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('#tip').isVisible(), false);
    await page.locator('.tokens .q0').hover();
    assert.match(await page.locator('#tip').textContent(), /Once.*99 %.*The.*0\.7 %/);

    assert.equal(await page.locator('#blocks rect').count(), 64);
    assert.equal(await page.locator('#blocks .shared').count(), 2);
    assert.equal(await page.locator('#blocks .cached').count(), 4);
    assert.equal(await page.locator('#blocks rect title').first().textContent(), 'Block 0: sequence 7 and 1 more');
    assert.equal(await page.locator('#blocks rect').first().evaluate((node) => node.style.fill), 'var(--accent)');
    assert.match(await page.locator('#blocksText').textContent(), /10 of 64 blocks of 16 positions in use, 2 shared, 4 cached\. 32 of 40/);
    assert.ok(await page.locator('#steps rect').count() >= 4);
    assert.deepEqual(await page.locator('#actors tr').allTextContents(), ['scheduler2', 'executor, in a step0', 'session × 13']);
    assert.match(await page.locator('#plan').textContent(), /num blocks512/);
    gate.open();
    await chip(page).waitFor();
    assert.equal(await page.locator('.cut-mark').textContent(), 'stop_string Human: at byte 10');
    await page.locator('#facts').getByText('Rule').waitFor();
    assert.match(await page.locator('#facts').textContent(), /Rulestop_string at byte 10.*First token \(TTFT\)4\.2 ms.*Between tokens/);
    assert.ok(await page.locator('.spark polyline').getAttribute('points'));

    await page.reload();
    await shows(page, 'Once upon\n');
    await chip(page).click();
    await page.locator('#facts').getByText('Your stop string came at byte 10.').waitFor();
    assert.equal(await page.locator('.tokens .q4').textContent(), ' upon', 'probabilities are kept');
    await page.keyboard.press('Alt+x');
    assert.deepEqual(server.frames.filter(({ type }) => type === 'stats').map(({ on }) => on).slice(-2), [true, false]);
  });
});
