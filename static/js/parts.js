// Small parts of the page: the message box, the notice above it, the scrolling, the voice.

import { button, h, iconButton, load, save, ui } from './dom.js';

const kNear = 40;     // px from the bottom that count as being there
const kPause = 3000;  // ms between two pieces of an answer for a screen reader

/// The message box. What stands in it is remembered, whatever happens.
export const composer = {
	get text() { return ui.prompt.value; },
	set text(text) {
		ui.prompt.value = text;
		composer.changed();
	},
	changed() {
		ui.send.disabled = composer.text.trim() === '';
		save('draft', composer.text);
		ui.prompt.style.height = 'auto';
		ui.prompt.style.height = `${ui.prompt.scrollHeight}px`;
	},
	/// `take` is given the text and returns true when it was taken.
	submit(take) {
		const text = composer.text.trim();
		if (text === '' || !take(text)) return;
		composer.text = '';
		composer.settle();
	},
	/// busy: '', 'answering' or 'stopping'.
	setBusy(busy) {
		const hadFocus = document.activeElement === ui.stop;
		ui.stop.hidden = busy === '';
		ui.send.hidden = busy !== '';
		ui.stop.disabled = busy === 'stopping';
		if (hadFocus) composer.settle();
	},
	/// Where writing goes on, but only where that raises no keyboard.
	settle() {
		if (matchMedia('(hover: hover)').matches) ui.prompt.focus();
	},
};
composer.text = `${load('draft', '')}`;
addEventListener('resize', composer.changed);

/// One sentence above the message box, with what can be done about it: [label, action].
export function showNotice(sentence, tone = '', choice = null) {
	ui.notice.className = tone;
	ui.notice.hidden = false;
	ui.notice.replaceChildren(h('p', sentence), choice ? button(choice[0], '', () => {
		hideNotice();
		choice[1]();
	}) : '', iconButton('Dismiss', 'close', () => hideNotice()));
}

export function hideNotice(tone = ui.notice.className) {
	if (ui.notice.className !== tone) return;
	const hadFocus = ui.notice.contains(document.activeElement);
	ui.notice.hidden = true;
	if (hadFocus) ui.prompt.focus();
}

let following = true;
let lastTop = 0;

/// Keeps the newest text in view, but only for a reader who is at the bottom.
export const follow = {
	start() {
		following = true;
		follow.show();
	},
	show() {
		const { scroller, jump } = ui;
		if (following) scroller.scrollTop = ui.conversation.hidden ? 0 : 1e9;
		jump.hidden = following;
	},
};
ui.scroller.onscroll = () => {
	const { scrollHeight, scrollTop, clientHeight } = ui.scroller;
	if (scrollHeight - scrollTop - clientHeight < kNear) following = true;
	else if (scrollTop < lastTop - 1) following = false;
	lastTop = scrollTop;
	ui.jump.hidden = following;
};
const watch = new ResizeObserver(follow.show);
watch.observe(ui.scroller);
watch.observe(ui.conversation);

let unspoken = '';
let spokenAt = 0;

/// Speaks to screen readers: whole sentences of an answer, every few seconds at most, and the end.
export const announce = {
	say(sentence) {
		ui.announcer.append(h('p', sentence));
		if (ui.announcer.childElementCount > 4) ui.announcer.firstChild.remove();
	},
	begin() {
		unspoken = '';
		spokenAt = performance.now();
	},
	append(text) {
		unspoken += text;
		if (performance.now() - spokenAt < kPause) return;
		const [spoken] = unspoken.match(/^.*(?:[.!?…。！？]["”’)]*\s|\n)/s) ?? [''];
		if (!spoken) return;
		announce.say(spoken);
		unspoken = unspoken.slice(spoken.length);
		spokenAt = performance.now();
	},
	end(sentence) {
		announce.say(`${unspoken} ${sentence}`);
		unspoken = '';
	},
};
