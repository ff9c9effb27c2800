// The chosen theme, before anything is painted. src/lib/theme.ts owns the setting; this only reads it.
try {
  const chosen = localStorage.getItem("penstock.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is forbidden: the system's theme it is.
}
