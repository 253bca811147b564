// Browsers refuse web workers to pages read from the file system, and the site's search is one. There, and only there,
// run the worker's script in a hidden frame instead: same messages, another thread less.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.onmessage = this.onerror = this.onmessageerror = null;
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = inner.document.createElement("script");
      script.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      script.onerror = () => this.onerror?.(new Event("error", { cancelable: true }));
      script.src = new URL(url, document.baseURI).href;
      inner.document.head.append(script);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else setTimeout(() => this.frame.contentWindow?.onmessage?.({ data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
