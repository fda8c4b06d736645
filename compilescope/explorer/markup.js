// Small builders of elements and of text that HTML takes literally.
const SVG = "http://www.w3.org/2000/svg", CLASS = "ksncf"; // \ue000 opens the first class, \ue00f closes
const esc = s => String(s).replace(/[&<>"]/g, c => "&#" + c.charCodeAt(0) + ";");
const prose = s => esc(s).replace(/`([^`]+)`/g, "<code>$1</code>");
const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");
const make = (tag, cls, html) => { const e = document.createElement(tag); if (cls) e.className = cls; if (html != null) e.innerHTML = html; return e; };
const spans = s => esc(s).replace(/[\ue000-\ue00f]/g, c => c === "\ue00f" ? "</span>" : `<span class="${CLASS[c.charCodeAt(0) - 0xe000]}">`);
const words = s => s.replace(/^([a-z]+)(\d+)/, (_, t, n) => ({f: "float", bf: "bfloat", i: "int", u: "uint"}[t] || (t + n === "b8" ? "bool" : t)) + (t + n === "b8" ? "" : n) + " ");
const el = (tag, attrs, text) => { const e = document.createElementNS(SVG, tag); for (const a in attrs) e.setAttribute(a, attrs[a]); if (text != null) e.textContent = text; return e; };
