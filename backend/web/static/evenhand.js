// The dashboard's small helpers; every page works without them, except for live progress and charts.
(() => {
  "use strict";

  const themes = ["auto", "light", "dark"];

  function setUpTheme() {
    const button = document.getElementById("theme");
    if (!button) return;
    const show = () => {
      const current = document.documentElement.dataset.theme || "auto";
      button.querySelector("[data-theme-name]").textContent = current;
    };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      const current = document.documentElement.dataset.theme || "auto";
      const next = themes[(themes.indexOf(current) + 1) % themes.length];
      if (next === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = next;
      try {
        localStorage.setItem("evenhand-theme", next);
      } catch {
        // Not remembered, but shown.
      }
      show();
    });
  }

  // Asks for a run's progress until it has ended, then shows the page anew.
  function poll(box) {
    const started = Date.now();
    const bar = box.querySelector("progress");
    const note = box.querySelector("[data-note]");
    const ask = async () => {
      let wait = 700;
      try {
        const answer = await fetch(box.dataset.poll, { headers: { Accept: "application/json" } });
        if (!answer.ok) throw new Error(String(answer.status));
        const state = await answer.json();
        bar.value = state.progress;
        if (note.textContent !== state.note) note.textContent = state.note;
        if (state.status === "done" || state.status === "failed") {
          location.reload();
          return;
        }
        const isSlow = state.status === "queued" && Date.now() - started > 15000;
        box.querySelector("[data-slow]").hidden = !isSlow;
      } catch {
        wait = 3000;
      }
      setTimeout(ask, wait);
    };
    setTimeout(ask, 300);
  }

  // Puts a part of the page in place that takes a while to make.
  async function load(box) {
    try {
      const answer = await fetch(box.dataset.load, { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(String(answer.status));
      box.innerHTML = await answer.text();
    } catch {
      box.querySelector("p").firstChild.textContent = "The checks could not be made. ";
    }
  }

  setUpTheme();
  document.querySelectorAll("[data-poll]").forEach(poll);
  document.querySelectorAll("[data-load]").forEach(load);
})();
