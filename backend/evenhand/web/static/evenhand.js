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
      remember("evenhand-theme", next);
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

  // Shows the page anew once what it waits for has changed: before a project's first run there is no progress to show.
  function wait(box) {
    const ask = async () => {
      try {
        const answer = await fetch(box.dataset.await, { headers: { Accept: "application/json" } });
        if (answer.ok && (await answer.json()).mark !== box.dataset.mark) {
          location.reload();
          return;
        }
      } catch {
        // The service may be starting again; the next question finds out.
      }
      setTimeout(ask, 3000);
    };
    setTimeout(ask, 2000);
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

  // Keys of the review bar press the buttons and links that name them; they can be switched off.
  function setUpKeys() {
    const bar = document.querySelector("[data-keys]");
    if (!bar) return;
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || silent()) return;
      if (event.target.closest("input:not([type=radio]), textarea, select, [contenteditable]")) return;
      const pressed = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
      if (!pressed) return;
      event.preventDefault();
      pressed.click();
    });
    const toggle = document.getElementById("keys");
    const show = () => {
      document.documentElement.classList.toggle("silent", silent());
      toggle.querySelector("[data-keys-state]").textContent = silent() ? "off" : "on";
    };
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      remember("evenhand-keys", silent() ? "on" : "off");
      show();
    });
    show();
  }

  function silent() {
    try {
      return localStorage.getItem("evenhand-keys") === "off";
    } catch {
      return false;
    }
  }

  function remember(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      // Not remembered, but shown.
    }
  }

  // A form of filters that applies as one types or chooses: the part of the page it narrows is fetched and replaced.
  function applyAtOnce(form) {
    let waiting = 0;
    let last = 0;
    const apply = async () => {
      const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
      const mine = ++last;
      const region = form.closest("[data-region]");
      try {
        const answer = await fetch(address, { headers: { Accept: "text/html" } });
        if (!answer.ok || mine !== last) return;
        const made = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = made.querySelector(`[data-region="${region.dataset.region}"]`);
        if (!fresh || mine !== last) throw new Error("no such part");
        // The form itself stays, with what is being typed; all around it is new.
        form.querySelector(".found").replaceWith(fresh.querySelector(".found"));
        while (form.nextSibling) form.nextSibling.remove();
        let next = fresh.querySelector("form").nextSibling;
        while (next) {
          const following = next.nextSibling;
          region.append(next);
          next = following;
        }
        history.replaceState(null, "", address);
      } catch {
        form.submit();
      }
    };
    form.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(apply, 200);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      apply();
    });
  }

  // The reader's own time beside UTC.
  function addLocalTimes() {
    const format = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "short" });
    if (new Intl.DateTimeFormat().resolvedOptions().timeZone === "UTC") return;
    document.querySelectorAll("time[datetime]").forEach((element) => {
      const local = `${format.format(new Date(element.dateTime))} local`;
      if (element.hasAttribute("data-local")) {
        const note = document.createElement("span");
        note.className = "local";
        note.textContent = ` (${local})`;
        element.append(note);
      } else element.title = `${element.title} · ${local}`;
    });
  }

  // A chart that was hidden when the page was drawn has no width yet.
  document.querySelectorAll("details:has([data-chart])").forEach((details) => {
    details.addEventListener("toggle", () => dispatchEvent(new Event("resize")));
  });
  document.documentElement.classList.add("script");
  setUpTheme();
  setUpKeys();
  addLocalTimes();
  document.querySelectorAll("[data-at-once]").forEach(applyAtOnce);
  document.querySelectorAll("[data-poll]").forEach(poll);
  document.querySelectorAll("[data-load]").forEach(load);
  document.querySelectorAll("[data-await]").forEach(wait);
})();
