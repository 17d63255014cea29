// Before the first paint: the theme that was chosen last, if it was.
"use strict";
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
