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

export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
export const bits = (nats, digits = 3) => window.privfunnel.number(nats / window.privfunnel.BIT, digits);

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
  upload(file) {
    const path = `${this.path("upload")}?${new URLSearchParams({ name: file.name })}`;
    return send(path, { method: "POST", headers: { "content-type": "application/octet-stream" }, body: file });
  },
  close() { if (this.session) navigator.sendBeacon(this.path("close")); },
};
