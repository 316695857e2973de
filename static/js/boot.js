// Runs before the first paint, so that a remembered theme does not flash.
try {
	document.documentElement.dataset.theme = JSON.parse(localStorage.getItem('sluice.theme')) ?? '';
} catch { /* storage is closed to us: the system's theme it is */ }
