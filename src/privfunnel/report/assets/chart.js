// What moves in a funnel chart and in a heat map. The drawings themselves are made by Python (chart.py, heat.py);
// without this script they are complete, only still. Shared by the report (inlined) and the explorer.
(function () {
  "use strict";
  const NATS = { bits: Math.LN2, nats: 1 }; // in one unit

  function number(value, digits) {
    if (!isFinite(value)) return "∞";
    if (Math.abs(value) < 1e-9) return (0).toFixed(digits); // what rounding leaves of nothing
    if (value !== 0 && Math.abs(value) < 0.5 * Math.pow(10, -digits)) return value.toExponential(1);
    return value.toFixed(digits);
  }

  function pointOf(circle) {
    return {
      disclosure: Number(circle.dataset.r),
      leakage: Number(circle.dataset.l),
      bound: Number(circle.dataset.b),
      status: circle.dataset.status,
    };
  }

  // Nats on the curve at any disclosure: straight lines between neighbours, which time sharing achieves.
  function interpolate(points, disclosure) {
    let left = { disclosure: 0, leakage: 0 };
    for (const point of points) {
      if (point.disclosure >= disclosure) {
        const width = point.disclosure - left.disclosure;
        const share = width > 0 ? (disclosure - left.disclosure) / width : 1;
        return left.leakage + share * (point.leakage - left.leakage);
      }
      left = point;
    }
    return left.leakage;
  }

  function scales(svg) {
    const d = svg.dataset;
    const nat = NATS[d.unit] || 1; // not every measure of leakage has a unit
    const along = NATS[d.xunit] || 1; // a distortion has no unit
    const [left, right, top, bottom, xmax, ymax] =
      [d.left, d.right, d.top, d.bottom, d.xmax, d.ymax].map(Number);
    return {
      x: (place) => left + ((right - left) * place) / along / xmax,
      y: (nats) => bottom - ((bottom - top) * nats) / nat / ymax,
      disclosure: (px) => Math.min(Math.max((px - left) / (right - left), 0), 1) * xmax * along,
    };
  }

  function funnel(figure, options) {
    const tip = figure.querySelector(".tip");
    const drawings = [...figure.querySelectorAll("svg.chart")];

    function show(svg, circle) {
      const point = pointOf(circle);
      const gap = point.leakage - point.bound;
      const told = (nats, digits, unit = svg.dataset.unit) => `${number(nats / (NATS[unit] || 1), digits)} ${unit}`.trim();
      tip.replaceChildren();
      for (const line of [
        `${svg.dataset.along} ${told(point.disclosure, 3, svg.dataset.xunit)}`,
        `leaked ${told(point.leakage, 4)}`,
        `proved at least ${told(point.bound, 4)}`,
        `gap ${told(gap, 6)}${point.status ? " · " + point.status : ""}`,
      ]) {
        tip.appendChild(Object.assign(document.createElement("div"), { textContent: line }));
      }
      const frame = figure.getBoundingClientRect();
      const spot = circle.getBoundingClientRect();
      tip.hidden = false;
      const x = spot.left - frame.left + spot.width / 2;
      const room = frame.width - tip.offsetWidth;
      tip.style.left = Math.max(0, Math.min(x - tip.offsetWidth / 2, room)) + "px";
      const above = spot.top - frame.top - tip.offsetHeight - 10;
      tip.style.top = (above >= 0 ? above : spot.bottom - frame.top + 10) + "px";
      for (const other of svg.querySelectorAll(".point.near")) other.classList.remove("near");
      circle.classList.add("near");
    }

    function hide() {
      tip.hidden = true;
      for (const other of figure.querySelectorAll(".point.near")) other.classList.remove("near");
    }

    for (const svg of drawings) {
      const circles = [...svg.querySelectorAll(".point")];
      const scale = scales(svg);
      const toDisclosure = (event) => {
        const box = svg.getBoundingClientRect();
        return scale.disclosure(((event.clientX - box.left) * svg.viewBox.baseVal.width) / box.width);
      };
      const nearest = (disclosure) =>
        circles.reduce((best, c) =>
          Math.abs(Number(c.dataset.r) - disclosure) < Math.abs(Number(best.dataset.r) - disclosure) ? c : best);
      svg.addEventListener("pointermove", (event) => {
        if (!circles.length) return;
        const disclosure = toDisclosure(event);
        show(svg, nearest(disclosure));
        if (event.buttons === 1 && options.onPick) options.onPick(disclosure);
      });
      svg.addEventListener("pointerleave", hide);
      svg.addEventListener("click", (event) => {
        if (options.onPick && circles.length) options.onPick(toDisclosure(event));
      });
      circles.forEach((circle, i) => {
        circle.addEventListener("focus", () => show(svg, circle));
        circle.addEventListener("blur", hide);
        circle.addEventListener("keydown", (event) => {
          const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
          const to = event.key === "Home" ? 0 : event.key === "End" ? circles.length - 1 : i + (steps[event.key] || 0);
          if ((event.key === "Enter" || event.key === " ") && options.onPick) {
            event.preventDefault();
            options.onPick(Number(circle.dataset.r));
          } else if (to !== i && circles[to]) {
            event.preventDefault();
            circle.setAttribute("tabindex", "-1");
            circles[to].setAttribute("tabindex", "0");
            circles[to].focus();
          }
        });
      });
    }

    return {
      points: () => (drawings.length ? [...drawings[0].querySelectorAll(".point")].map(pointOf) : []),
      // Put the chosen point on the curve at a disclosure in nats.
      mark(disclosure, leakage) {
        for (const svg of drawings) {
          const scale = scales(svg);
          const spot = svg.querySelector(".chosen");
          spot.setAttribute("transform", `translate(${scale.x(disclosure)} ${scale.y(leakage)})`);
          spot.setAttribute("visibility", "visible");
        }
      },
    };
  }

  function heatmap(figure) {
    const svg = figure.querySelector("svg.heat");
    const data = JSON.parse(figure.querySelector("script").textContent);
    const readout = figure.querySelector(".readout");
    const cursor = svg.querySelector(".cursor");
    const [left, top, cell, row, cols, rows] = ["left", "top", "cell", "row", "cols", "rows"]
      .map((name) => Number(svg.dataset[name]));
    const at = { row: 0, col: 0 };

    function read() {
      const value = data.cells[at.row * cols + at.col] / 10;
      readout.textContent = `${data.rows[at.row]} → ${data.columns[at.col]}: ${value.toFixed(1)} %`;
      cursor.setAttribute("x", left + at.col * cell);
      cursor.setAttribute("y", top + at.row * row);
      cursor.setAttribute("visibility", "visible");
    }
    function move(r, c) {
      if (r < 0 || c < 0 || r >= rows || c >= cols) return;
      Object.assign(at, { row: r, col: c });
      read();
    }
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const zoom = svg.viewBox.baseVal.width / box.width;
      move(Math.floor(((event.clientY - box.top) * zoom - top) / row),
        Math.floor(((event.clientX - box.left) * zoom - left) / cell));
    });
    svg.addEventListener("pointerleave", () => cursor.setAttribute("visibility", "hidden"));
    svg.addEventListener("focus", read);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      move(at.row + step[0], at.col + step[1]);
    });
  }

  // A list of combinations of values, of which those are shown that hold what is typed: parts between commas, or words.
  function lookup(root) {
    const data = JSON.parse(root.querySelector("script").textContent);
    const [field, said, body] = ["input", "[role=status]", "tbody"].map((name) => root.querySelector(name));
    const lowered = data.levels.map((texts) => texts.map((text) => text.toLowerCase()));
    const names = data.names.map((name) => name.toLowerCase());
    const MOST = 20;

    function matches(codes, word) {
      const cut = word.indexOf("=");
      const column = cut < 0 ? -1 : names.indexOf(word.slice(0, cut).trim());
      const wanted = column < 0 ? word : word.slice(cut + 1).trim();
      return codes.some((code, a) => (column < 0 || a === column) && lowered[a][code].includes(wanted));
    }
    field.addEventListener("input", () => {
      const text = field.value.toLowerCase();
      const words = text.split(text.includes(",") ? "," : /\s+/).map((word) => word.trim()).filter(Boolean);
      const hits = data.codes.map((_, i) => i).filter((i) => words.every((word) => matches(data.codes[i], word)));
      said.textContent = `${hits.length} of ${data.codes.length} listed${hits.length > MOST ? `, ${MOST} are shown` : ""}`;
      body.replaceChildren(...hits.slice(0, MOST).map((i) => {
        const row = document.createElement("tr");
        [data.codes[i].map((code, a) => data.levels[a][code]).join(", "), ...data.rows[i]].forEach((value, j) => {
          const cell = document.createElement("td");
          cell.textContent = value;
          if (j === 1 || j === 2) cell.className = "num";
          row.appendChild(cell);
        });
        return row;
      }));
    });
    root.querySelector(".needs-script").hidden = false;
  }

  window.privfunnel = {
    NATS, number, interpolate, funnel,
    lookups: (root) => root.querySelectorAll(".lookup").forEach(lookup),
    heatmaps: (root) => root.querySelectorAll("figure.heatmap").forEach(heatmap),
  };
})();
