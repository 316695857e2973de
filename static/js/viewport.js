// Where a virtual keyboard covers the page instead of shrinking it, the page shrinks itself.

export function startViewport() {
  const view = window.visualViewport;
  if (!view) return;
  const root = document.documentElement;
  const fit = () => {
    const covered = view.scale === 1 && view.height < window.innerHeight - 1;
    if (covered) root.style.setProperty('--view', `${view.height}px`);
    else root.style.removeProperty('--view');
    if (covered) window.scrollTo(0, 0);
  };
  view.addEventListener('resize', fit);
  fit();
}
