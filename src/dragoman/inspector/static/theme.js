// Applies the stored theme before the first paint. A classic script: a module would run too late and the page would flash.
const storedTheme = localStorage.getItem("dragoman.theme");
if (storedTheme === "light" || storedTheme === "dark") document.documentElement.dataset.theme = storedTheme;
