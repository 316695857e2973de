// Small helpers around the document. Text enters the page through textContent alone.

export const byId = (id) => document.getElementById(id);

/// el('p', {class: 'said', text: 'Hi', onclick: f, 'aria-label': 'x'}, child, ...)
export function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'class') node.className = value;
    else if (key === 'text') node.textContent = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', `#i-${name}`);
  svg.append(use);
  return svg;
}

export function button(label, iconName, onclick, classes = 'tool') {
  return el('button', { type: 'button', class: classes, onclick }, iconName && icon(iconName), el('span', { text: label }));
}

/// Touch screens get no focus that would raise the keyboard unasked.
export const hasKeyboard = () => !matchMedia('(hover: none) and (pointer: coarse)').matches;

const waiting = new Set();

/// Calls `work` once before the next paint, however often it is asked.
export function beforePaint(work) {
  if (waiting.size === 0) requestAnimationFrame(runFrame);
  waiting.add(work);
}

function runFrame() {
  const now = [...waiting];
  waiting.clear();
  for (const work of now) work();
}
