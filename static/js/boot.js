// Runs before the first paint, so that a remembered theme does not flash.
try {
  const theme = localStorage.getItem('sluice.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch { /* storage is closed to us: the system's theme it is */ }
