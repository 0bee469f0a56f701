"use strict";
// What a page can do beyond being read: light and dark, pointing at marks, views of a figure,
// saving figures, sorting and filtering tables. Nothing here loads anything.
(() => {
  const root = document.documentElement;
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const remember = (theme) => { try { localStorage.setItem("v4sim-theme", theme); } catch { /* a page from a disk may keep nothing */ } };
  try { const kept = localStorage.getItem("v4sim-theme"); if (kept) root.dataset.theme = kept; } catch { /* as above */ }
  for (const button of document.querySelectorAll(".theme")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      remember(root.dataset.theme);
    });
  }

  // Pointing at a mark: the nearest one speaks.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const nearest = (svg, x, y) => {
    let found = null, least = 26;
    for (const mark of svg.querySelectorAll("[data-t]")) {
      const box = mark.getBoundingClientRect();
      const away = Math.hypot(
        Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
      // Of marks on each other the smaller one.
      const rank = away + Math.min(box.width, 60) / 100;
      if (rank < least) { least = rank; found = mark; }
    }
    return found;
  };
  const say = (event) => {
    const svg = event.target.closest && event.target.closest(".figure svg");
    const mark = svg && nearest(svg, event.clientX, event.clientY);
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.t;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 12}px`;
  };
  document.addEventListener("pointermove", say);
  document.addEventListener("pointerdown", say);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // Views of a figure.
  for (const button of document.querySelectorAll(".views button")) {
    button.addEventListener("click", () => {
      const figure = button.closest(".figure");
      for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
      for (const view of figure.querySelectorAll(".view")) view.hidden = view.dataset.view !== button.dataset.view;
    });
  }

  // Saving what is seen.
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const drawn = (figure) => {
    const svg = [...figure.querySelectorAll("svg")].find((one) => one.getClientRects().length);
    const style = getComputedStyle(root);
    const text = new XMLSerializer().serializeToString(svg)
      .replace(/var\((--[a-z]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    const paper = style.getPropertyValue("--paper").trim();
    return { svg, text: text.replace(/(<svg[^>]*>)/, `$1<rect width="100%" height="100%" fill="${paper}"/>`) };
  };
  const quoted = (value) => /[",\n]/.test(String(value)) ? `"${String(value).replace(/"/g, '""')}"` : String(value ?? "");
  const stored = document.getElementById("figures");
  const figures = stored ? JSON.parse(stored.textContent) : {};
  const csv = (id) => {
    const rows = [["series", "x", "y"]];
    for (const trace of figures[id].data) {
      if (trace.hoverinfo === "skip" && !trace.name) continue;
      trace.x.forEach((x, place) => rows.push([trace.name || "", x, trace.y[place]]));
    }
    return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
  };
  const png = (figure, id) => {
    const { svg, text } = drawn(figure);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * svg.viewBox.baseVal.width;
      canvas.height = 2 * svg.viewBox.baseVal.height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, `${id}.png`));
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  };
  for (const button of document.querySelectorAll(".save button")) {
    button.addEventListener("click", () => {
      const figure = button.closest(".figure"), id = figure.id;
      if (button.dataset.save === "png") png(figure, id);
      else if (button.dataset.save === "svg") save(new Blob([drawn(figure).text], { type: "image/svg+xml" }), `${id}.svg`);
      else save(new Blob([csv(id)], { type: "text/csv" }), `${id}.csv`);
    });
  }

  // Tables: a click on a heading sorts by exact values, a second one turns the order round.
  const plain = (text) => /^(x )?[-+<>]?[\d,]*\.?\d+ ?%?$/.test(text) ? Number(text.replace(/[^-\d.]/g, "")) : text;
  const key = (cell) => cell.dataset.v === undefined ? plain(cell.textContent.trim()) : Number(cell.dataset.v);
  for (const table of document.querySelectorAll("table.sorted")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.tabIndex = 0;
      const sort = () => {
        const falling = head.getAttribute("aria-sort") !== "descending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [key(a.cells[column]), key(b.cells[column])];
          const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
          return falling ? -order : order;
        });
        body.append(...rows);
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  }
  for (const find of document.querySelectorAll("input.find")) {
    const rows = find.parentElement.querySelector("tbody").rows;
    find.addEventListener("input", () => {
      const wanted = find.value.toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  }
  for (const scroll of document.querySelectorAll(".scroll")) {
    const hint = scroll.previousElementSibling;
    const show = () => {
      if (hint && hint.classList.contains("hint")) {
        hint.style.display = scroll.scrollWidth > scroll.clientWidth + 2 ? "block" : "none";
      }
    };
    show();
    addEventListener("resize", show);
  }
})();
