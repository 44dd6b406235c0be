// The theme: the system's, or light or dark by choice. The choice is stored if the browser allows it for files.
const theme = document.getElementById("theme");
const THEMES = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
const redraws = [];
let chosen = 0;
const showTheme = () => {
  const [name, words] = THEMES[chosen];
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  theme.textContent = `Theme: ${words}`;
  for (const redraw of redraws) redraw();
};
try {
  chosen = Math.max(0, THEMES.findIndex(([name]) => name === localStorage.getItem("stagewright-theme")));
} catch {
  // No choice was stored.
}
theme.hidden = false;
theme.addEventListener("click", () => {
  chosen = (chosen + 1) % THEMES.length;
  try {
    localStorage.setItem("stagewright-theme", THEMES[chosen][0]);
  } catch {
    // The choice lasts until the page is closed.
  }
  showTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));
showTheme();

