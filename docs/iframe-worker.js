// Browsers start no workers for pages opened from the disk. There, the theme's search runs in a hidden frame instead.
if (location.protocol === "file:") {
  const load = (page, url) => new Promise((done, failed) => {
    const script = page.createElement("script");
    Object.assign(script, { src: url, onload: done, onerror: failed });
    page.head.append(script);
  });
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><head></head>");
      inside.document.close();
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => load(inside.document, one)), Promise.resolve());
      this.send = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      this.ready = load(inside.document, url);
    }

    postMessage(data) {
      this.ready.then(() => this.send(data));
    }

    terminate() {}
  };
}
