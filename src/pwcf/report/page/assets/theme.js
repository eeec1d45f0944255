// Before the first paint, or a dark page would flash white. Storage may be forbidden: the system's choice holds then.
(() => {
  'use strict';
  let chosen = null;
  try { chosen = localStorage.getItem('pwcf-theme'); } catch { chosen = null; }
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const show = () => { document.documentElement.dataset.theme = chosen ?? (dark.matches ? 'dark' : 'light'); };
  show();
  dark.addEventListener('change', show);
  document.addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');
    const name = () => {
      const isDark = document.documentElement.dataset.theme === 'dark';
      button.querySelector('span').textContent = isDark ? 'Light' : 'Dark';
      button.setAttribute('aria-label', `Switch to ${isDark ? 'light' : 'dark'} colours`);
    };
    name();
    dark.addEventListener('change', name);
    button.addEventListener('click', () => {
      chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
      try { localStorage.setItem('pwcf-theme', chosen); } catch { /* for this visit only */ }
      show();
      name();
    });
  });
})();
