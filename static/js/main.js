// Starts the page and introduces its parts to each other.

import * as chat from './chat.js';
import * as link from './connection.js';
import { asMarkdown, titleOf } from './conversation.js';
import { download, h, iconButton, save, ui } from './dom.js';
import { loadMarkdown } from './markdown.js';
import { announce, composer, follow, showNotice } from './parts.js';
import { on as onSettings, openSettings, settings } from './settings.js';
import { allChats, keepsChats, removeChat, storeChat } from './store.js';
import * as xray from './xray.js';

async function applyLook() {
	chat.look.markdown = settings.markdown ? await loadMarkdown() : null;
	chat.redraw();
}

async function showChats() {
	const entries = await allChats();
	const open = (id) => {
		ui.history.close();
		chat.openChat(id);
	};
	const remove = async (entry) => {
		await removeChat(entry.id);
		if (entry.id === chat.conversation.id) chat.newChat();
		ui.history.close();
		showNotice('The conversation is deleted.', '', ['Bring it back', () => storeChat(entry).then(() => chat.openChat(entry.id))]);
	};
	ui.chats.replaceChildren(...entries.map((entry) => h('li',
		h('button', { 'aria-current': entry.id === chat.conversation.id, onclick: () => open(entry.id) },
			h('span', entry.title), h('time', new Date(entry.at).toLocaleString())),
		iconButton(`Delete ${entry.title}`, 'trash', () => remove(entry)))));
	ui.chatsNote.textContent = await keepsChats() ? 'Kept in this browser alone.' : 'This browser keeps no conversations.';
	ui.history.showModal();
}

let wasLost = false;

function showConnection() {
	const waiting = link.state === 'waiting';
	const locked = link.state === 'locked';
	ui.connection.dataset.state = link.state;
	ui.connection.disabled = !waiting && !locked;
	ui.linkText.textContent = ui.connection.title = { open: 'Connected', waiting: 'Offline, try now', locked: 'Enter a key' }[link.state] ?? 'Connecting';
	if (locked) announce.say('The server asks for a key.');
	if (waiting && !wasLost) announce.say('The connection is lost. Trying again.');
	if (link.state === 'open' && wasLost) announce.say('Connected again.');
	if (link.state !== 'connecting') wasLost = waiting;
}

/// What the system says anyway is not remembered, so that the page follows it again.
function toggleTheme() {
	const { dataset } = document.documentElement;
	const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
	const theme = (dataset.theme || system) === 'dark' ? 'light' : 'dark';
	dataset.theme = theme === system ? '' : theme;
	save('theme', dataset.theme);
}

function onKey(event) {
	const { key, code, target, altKey } = event;
	if (event.isComposing || event.keyCode === 229 || event.defaultPrevented || document.querySelector('dialog[open]')) return;
	let done = true;
	if (key === 'Enter' && target === ui.prompt && !event.shiftKey) composer.submit(chat.sendMessage);
	else if (key === 'Escape') chat.stop() || chat.cancelEdit();
	else if (altKey && code === 'KeyX') xray.toggle();
	else if (key === '/' && !target.matches('input, textarea')) ui.prompt.focus();
	else done = false;
	if (done) event.preventDefault();
}

const kClicks = {
	send: () => composer.submit(chat.sendMessage), stop: chat.stop, newChat: () => chat.newChat(), connection: () => link.state === 'locked' ? openSettings(chat.hello) : link.retryNow(),
	openHistory: showChats, openSettings: () => openSettings(chat.hello), toggleTheme, toggleXray: () => xray.toggle(),
	export: () => download(`${titleOf(chat.conversation).replace(/[^\p{L}\p{N}]+/gu, '-')}.md`, asMarkdown(chat.conversation)),
	jump() {
		follow.start();
		ui.scroller.focus({ preventScroll: true });
	},
};
for (const [id, action] of Object.entries(kClicks)) ui[id].onclick = action;
for (const dialog of document.querySelectorAll('dialog')) {
	dialog.onclick = ({ target }) => { if (target === dialog || target.closest('.close')) dialog.close(); };
}
ui.prompt.oninput = composer.changed;
document.addEventListener('keydown', onKey);
ui.suggestions.onclick = ({ target }) => {
	if (target.tagName !== 'BUTTON') return;
	if (!chat.sendMessage(target.textContent)) composer.text = target.textContent;
	composer.settle();
};

onSettings.look = applyLook;
onSettings.key = link.open;
Object.assign(link.on, {
	change: showConnection,
	stats: xray.take,
	hello(hello) {
		ui.model.textContent = ui.model.title = hello.model;
		chat.setHello(hello);
	},
});
await chat.openChat(location.hash.slice(1));
link.open();
applyLook();
composer.settle();
