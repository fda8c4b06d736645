// Small builders of elements and of text that HTML takes literally.
const SVG = "http://www.w3.org/2000/svg", CLASS = "ksncf"; // \ue000 opens the first class, \ue00f closes
const esc = s => String(s).replace(/[&<>"]/g, c => "&#" + c.charCodeAt(0) + ";");
const prose = s => esc(s).replace(/`([^`]+)`/g, "<code>$1</code>");
const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");
const make = (tag, cls, html) => { const e = document.createElement(tag); if (cls) e.className = cls; if (html != null) e.innerHTML = html; return e; };
const spans = s => esc(s).replace(/[\ue000-\ue00f]/g, c => c === "\ue00f" ? "</span>" : `<span class="${CLASS[c.charCodeAt(0) - 0xe000]}">`);
const words = s => s.replace(/^([a-z]+)(\d+)/, (_, t, n) => ({f: "float", bf: "bfloat", i: "int", u: "uint"}[t] || (t + n === "b8" ? "bool" : t)) + (t + n === "b8" ? "" : n) + " ");
const el = (tag, attrs, text) => { const e = document.createElementNS(SVG, tag); for (const a in attrs) e.setAttribute(a, attrs[a]); if (text != null) e.textContent = text; return e; };
// A line through [x, y, x, y, …] whose corners are rounded, as SVG path data.
const rounded = p => {
  let d = `M${p[0]} ${p[1]}`;
  for (let i = 2; i < p.length - 2; i += 2) {
    const to = j => { const x = p[j] - p[i], y = p[j + 1] - p[i + 1], far = Math.hypot(x, y) || 1, step = Math.min(10, far / 2) / far; return `${p[i] + x * step | 0} ${p[i + 1] + y * step | 0}`; };
    d += `L${to(i - 2)}Q${p[i]} ${p[i + 1]} ${to(i + 2)}`;
  }
  return d + `L${p[p.length - 2]} ${p[p.length - 1]}`;
};
// Pictures as packing.py leaves them: columns become rows again, and lines get back the ends that their boxes tell.
const rows = columns => columns.length ? columns[0].map((_, i) => columns.map(c => c[i])) : [];
const unpack = P => {
  const n = rows(P.n), whole = ([a, b, l]) => [a, b, l.length % 2 ? l.slice(1) : [l[0], n[a][4] + 18, ...l.slice(1), n[b][4] - 18]];
  return {...P, n, e: rows(P.e).map(whole)};
};
