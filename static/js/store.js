// Conversations in this browser's IndexedDB. Where there is none, nothing is stored. Other tabs
// hear of what is.

const channel = new BroadcastChannel('sluice');

const opened = new Promise((resolve) => {
	try {
		const request = indexedDB.open('sluice', 1);
		request.onupgradeneeded = () => request.result.createObjectStore('chats', { keyPath: 'id' });
		request.onsuccess = () => resolve(request.result);
		request.onerror = request.onblocked = () => resolve(null);
	} catch {
		resolve(null);
	}
});

async function ask(work, mode = 'readwrite') {
	const database = await opened;
	return database && new Promise((resolve) => {
		const transaction = database.transaction('chats', mode);
		const request = work(transaction.objectStore('chats'));
		transaction.commit();  // also when the page goes at this moment
		request.onsuccess = () => resolve(request.result);
		request.onerror = () => resolve(null);
	});
}

/// Whether a conversation outlives the page.
export const keepsChats = async () => await opened !== null;

export const loadChat = (id) => ask((chats) => chats.get(id), 'readonly');

/// The latest first.
export const allChats = async () => (await ask((chats) => chats.getAll(), 'readonly') ?? []).sort((a, b) => b.at - a.at);

/// `tell`: other tabs that show it should look.
export async function storeChat(chat, tell) {
	const copy = structuredClone(chat);
	await ask((chats) => chats.put(copy));
	if (tell) channel.postMessage(chat.id);
}

export const removeChat = (id) => ask((chats) => chats.delete(id));

export const onStored = (listener) => { channel.onmessage = ({ data }) => listener(data); };
