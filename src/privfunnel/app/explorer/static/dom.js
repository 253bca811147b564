// Small helpers: elements, messages, requests. No text from a table ever goes through innerHTML here.
export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function say(text) { $("status").textContent = text; }

export function complain(error) {
  const box = $("error");
  box.textContent = error ? error.message || String(error) : "";
  box.hidden = !error;
}

// Redraw a part of the page; where the focus was inside, it goes to what took the place of its element.
export function keepingFocus(container, redraw) {
  const held = document.activeElement;
  const inside = held && held !== container && container.contains(held);
  const key = inside && (held.getAttribute("data-r") ? `[data-r="${held.getAttribute("data-r")}"]`
    : held.getAttribute("download") ? `[download="${held.getAttribute("download")}"]` : held.tagName.toLowerCase());
  const place = inside ? [...container.querySelectorAll(key)].indexOf(held) : -1;
  redraw();
  if (!inside) return;
  const found = [...container.querySelectorAll(key)];
  const next = found[Math.max(Math.min(place, found.length - 1), 0)];
  if (next) next.focus({ preventScroll: true });
}

export const head = (names) => el("thead", {}, el("tr", {}, ...names.map((name, i) =>
  el("th", { scope: "col", class: i && i < names.length - 1 ? "num" : "" }, name))));

export function bar(parts, marks = []) {
  return svg("svg", { class: "bar", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", x: 0, y: 1, width: 100, height: 10 }),
    ...parts.map(([cls, from, to]) => svg("rect", { class: cls, x: 100 * from, y: 1, width: Math.max(100 * (to - from), 0), height: 10 })),
    ...marks.map((at) => svg("line", { class: "mark", x1: 100 * at, x2: 100 * at, y1: 0, y2: 12, "vector-effect": "non-scaling-stroke" })));
}

export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

// The page has one unit; the server computes in nats.
let unit = "bits";
export const setUnit = (name) => { unit = name; };
export const unitName = () => unit;
export const natsPerUnit = () => window.privfunnel.NATS[unit];
export const number = (nats, digits = 3) => window.privfunnel.number(nats / natsPerUnit(), digits);
export const amount = (nats, digits = 3) => `${number(nats, digits)} ${unit}`;

// Leakage is an amount of information, unless it is measured otherwise: then it is a number without unit.
let information = true;
export const setInformation = (is) => { information = is; };
export const leakageUnit = () => (information ? unit : "");
export const perLeakage = () => (information ? natsPerUnit() : 1);
export const leaked = (value, digits = 4) => `${window.privfunnel.number(value / perLeakage(), digits)} ${leakageUnit()}`.trim();

export function unlock(id) {
  $(id).removeAttribute("data-locked");
  document.querySelector(`.steps a[href="#${id}"]`).classList.add("ready");
}

export function lock(...ids) {
  for (const id of ids) {
    $(id).setAttribute("data-locked", "");
    document.querySelector(`.steps a[href="#${id}"]`).classList.remove("ready");
  }
}

// Only the latest of a burst of calls runs; the ones before it are forgotten.
export function latest(wait, action) {
  let timer = 0;
  let turn = 0;
  return (...args) => {
    clearTimeout(timer);
    const mine = ++turn;
    timer = setTimeout(() => action(() => mine === turn, ...args), wait);
  };
}

export const seconds = (since) => Math.round((performance.now() - since) / 1000);

async function answer(response) {
  const type = response.headers.get("content-type") || "";
  const body = type.includes("json") ? await response.json() : { error: (await response.text()).trim() };
  if (!response.ok || body.error) throw new Error(body.error || `the server answered ${response.status}`);
  return body;
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("the explorer does not answer: is it still running in the terminal?");
  }
  return answer(response);
}

export const api = {
  session: "",
  path(name) { return `/api/sessions/${this.session}/${name}`; },
  async open() { this.session = (await send("/api/sessions", { method: "POST" })).id; },
  hello: () => send("/api/hello"),
  get(name, query = {}) { return send(`${this.path(name)}?${new URLSearchParams(query)}`); },
  post(name, data = {}) {
    return send(this.path(name), {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(data),
    });
  },
  prepare: (path) => send(path, { method: "POST" }),
  // fetch() does not say how much of a file has gone; the older interface does.
  upload(file, read, onSent) {
    const path = `${this.path("upload")}?${new URLSearchParams({ name: file.name, read: JSON.stringify(read) })}`;
    return new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      request.open("POST", path);
      request.setRequestHeader("content-type", "application/octet-stream");
      request.upload.onprogress = (event) => { if (event.lengthComputable) onSent(event.loaded / event.total); };
      request.onerror = () => fail(new Error("the explorer does not answer: is it still running in the terminal?"));
      request.onload = () => {
        let body;
        try { body = JSON.parse(request.responseText); } catch { body = { error: request.responseText.trim() }; }
        if (request.status >= 400 || body.error) fail(new Error(body.error || `the server answered ${request.status}`));
        else done(body);
      };
      request.send(file);
    });
  },
  close() { if (this.session) navigator.sendBeacon(this.path("close")); },
};
