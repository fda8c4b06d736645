// The explorer: draws the data of page.py into `root` and keeps source, graph and code on the same spot.
function explorer(root, css, D) {
"use strict";
const twin = root.querySelector("details");

const stored = D.pics.map(one => one.e ? unpack(one) : one), kept = i => stored[D.at[i]]; // by the number that parts know it by
root.textContent = "";
root.className = "cs";
root.dataset.lmSuppressShortcuts = "true"; // else JupyterLab moves between cells on arrow keys
root.append(make("style", "", css));
const theme = () => {
  const jp = document.body.dataset.jpThemeLight, code = document.body.className.match(/vscode-(light|dark)/);
  root.dataset.dark = jp ? jp === "false" : code ? code[1] === "dark" : matchMedia("(prefers-color-scheme:dark)").matches;
};
theme();
const watch = new MutationObserver(() => root.isConnected ? theme() : watch.disconnect());
watch.observe(document.body, {attributes: true, attributeFilter: ["data-jp-theme-light", "class"]});
matchMedia("(prefers-color-scheme:dark)").addEventListener("change", theme);

const open = new Set();
let T, stage, doc = null, zoom = 0, pinned = null, lit = [];
let nodes, byLine, kernelParts, codeLines, lineKernels, lineNodes;

function button(text, label, run) { const b = make("button", "b", text); b.type = "button"; b.setAttribute("aria-label", label); b.title = label; b.onclick = run; return b; }

// ---- frame
const head = make("div", "head", `<b role="heading" aria-level="3"></b><span class="origin"></span>`);
const origin = head.lastChild, alerts = make("div", "alerts"), bar = make("div", "bar"), legend = make("div", "legend");
const panes = make("div", "panes"), status = make("div", "status"), textPane = make("div", "twin");
status.setAttribute("aria-live", "polite");
const pane = (cls, title) => {
  const s = make("section", cls, `<div class="ph"><span class="pt">${title}</span></div><div class="body"></div>`);
  s.setAttribute("aria-label", title); s.lastChild.tabIndex = 0; panes.append(s);
  const widen = button("⤢", "widen or narrow this pane: " + title, () => {
    const on = panes.dataset.wide === cls;
    if (on) delete panes.dataset.wide; else panes.dataset.wide = cls;
    panes.querySelectorAll(".widen").forEach(b => b.setAttribute("aria-pressed", !on && b === widen));
  });
  widen.classList.add("widen"); s.firstChild.append(widen);
  return {head: s.firstChild.insertBefore(make("span", "ph-in"), widen), body: s.lastChild, section: s, title: s.querySelector(".pt")};
};
const src = pane("src", "Your code"), graph = pane("graph", "Graph"), code = pane("code", "Generated code");
textPane.hidden = true;
textPane.append(twin.querySelector("pre"));
root.append(head, alerts, bar, legend, panes, textPane, status);

for (const n of D.none) alerts.append(make("div", D.empty ? "none loud" : "none",
  `<b>${n.fn ? `<code>${esc(n.fn)}</code> was not compiled` : "Nothing was compiled"}</b> ${n.line ? `<code class="where">${esc(n.line)}</code>` : ""}<p>${prose(n.r)}</p><p class="do">${prose(n.do)}</p>`));

function tabs(label, items, chosen, pick) {
  const list = make("div", "tabs"); list.setAttribute("role", "tablist"); list.setAttribute("aria-label", label);
  items.forEach(([key, text]) => {
    const b = make("button", "tab", esc(text)); b.type = "button"; b.setAttribute("role", "tab"); b.dataset.key = key;
    b.setAttribute("aria-selected", key === chosen); b.tabIndex = key === chosen ? 0 : -1;
    b.onclick = () => { choose(list, key); pick(key); };
    b.onkeydown = e => {
      const go = e.key === "ArrowRight" ? b.nextSibling : e.key === "ArrowLeft" ? b.previousSibling : null;
      if (go) { e.preventDefault(); go.focus(); go.click(); }
    };
    list.append(b);
  });
  return list;
}
const choose = (list, key) => [...list.children].forEach(b => { const on = b.dataset.key === String(key); b.setAttribute("aria-selected", on); b.tabIndex = on ? 0 : -1; });


const stageSlot = make("div", "slot");
if (D.targets.length > 1) bar.append(tabs("Target", D.targets.map((t, i) => [String(i), t.name]), "0", i => setTarget(+i)));
bar.append(stageSlot);
const find = make("input"); find.type = "search"; find.placeholder = "find a node"; find.setAttribute("aria-label", "find a node");
find.oninput = () => search(find.value); find.onkeydown = e => { if (e.key === "Enter") { e.preventDefault(); search(find.value, true); } };
const asText = button("as text", "the same as text", () => { textPane.hidden = !textPane.hidden; panes.hidden = legend.hidden = !textPane.hidden; asText.setAttribute("aria-pressed", !textPane.hidden); });
const tools = make("span", "tools");
tools.append(find, button("−", "zoom out", () => setZoom(zoom / 1.25)), button("+", "zoom in", () => setZoom(zoom * 1.25)), button("fit", "fit the whole graph", () => fit(true)), asText);
bar.append(tools);

// ---- source
function drawSource() {
  D.src.forEach((text, f) => {
    if (D.src.length > 1) src.body.append(make("div", "file", esc(text.t)));
    const box = make("pre");
    text.c.forEach(([first, lines], i) => {
      if (i) box.append(make("span", "gap", "⋯"));
      lines.split("\n").forEach((line, j) => {
        const s = make("span", "l", `<i class="no">${first + j}</i><span class="dots"></span><span class="x">${spans(line) || " "}</span>`);
        s.dataset.f = f; s.dataset.l = first + j; box.append(s);
      });
    });
    src.body.append(box);
  });
  if (D.src.length === 1) src.title.textContent = D.src[0].t === "your cell" ? "Your code" : D.src[0].t;
  if (!D.src.length) { src.section.hidden = true; panes.dataset.src = "none"; }
}
const lineOf = at => !at ? null : src.body.querySelector(`.l[data-f="${at[0]}"][data-l="${at[1]}"]`);

// ---- target, stage
const number = (p, k) => T.parts[p].first + k;
const ink = n => `--k:var(--k${n % 8})`;
function setTarget(i) {
  T = D.targets[i];
  let first = 0;
  for (const part of T.parts) { part.first = first; first += part.k.length; }
  origin.textContent = T.origin; head.firstChild.textContent = T.head;
  alerts.querySelectorAll(".note").forEach(e => e.remove());
  for (const note of T.notes) alerts.append(make("div", "note", esc(note)));
  const there = Object.keys(D.stages).filter(s => T.parts.some(p => s in p.pics));
  if (!there.includes(stage)) stage = there.includes(T.stage) ? T.stage : there[0];
  stageSlot.textContent = "";
  if (there.length > 1) stageSlot.append(tabs("Stage of the graph", there.map(s => [s, D.stages[s]]), stage, setStage));
  setStage(stage);
}
function setStage(s) {
  stage = s; drawLegend(); drawGraphs(); doc = null; chooseDoc();
  if (pinned && !pinned.nodes.length) apply(pinned); else { pinned = null; hint(); }
}
function chooseDoc() {
  const back = /backward/.test(stage);
  for (let p = 0; p < T.parts.length; p++) for (let d = 0; d < T.parts[p].docs.length; d++) {
    const which = T.parts[p].docs[d][0];
    if (which === stage || (back ? which === "backward" : which === "forward" || which === "inference")) return setDoc(p, d);
  }
  const p = T.parts.findIndex(x => x.docs.length);
  if (p >= 0) setDoc(p, 0); else noCode();
}

// ---- kernels
function drawLegend() {
  legend.textContent = "";
  const back = /backward/.test(stage), shown = which => stage === "joint" || (which === "backward") === back;
  const count = T.parts.reduce((n, part) => n + part.k.filter(k => shown(part.which[k[5]])).length, 0);
  let elsewhere = 0;
  T.parts.forEach((part, p) => {
    let group = null, of = -1;
    part.k.forEach(([name, fused, time, read, wrote, module, launches], k) => {
      if (!shown(part.which[module])) { elsewhere++; return; }
      if (module !== of) {
        of = module; group = make("div", "grp");
        const label = [T.parts.length > 1 && part.name, part.which.length > 1 && part.which[module]].filter(Boolean).join(", ");
        if (label) group.append(make("span", "of", esc(label)));
        legend.append(group);
      }
      const n = number(p, k), size = read && wrote && count < 5 ? `<span class="by">reads ${read} · writes ${wrote}</span>` : "", took = time ? `<span class="by">took ${time}</span>` : "";
      const b = make("button", "chip", `<i class="dot">${n + 1}</i><span class="kn">${esc(name)}</span><span class="fu">${esc(fused)}${launches > 1 ? " ×" + launches : ""}</span>${size}${took}`);
      b.type = "button"; b.style = ink(n); b.dataset.p = p; b.dataset.k = k; b.title = name + (read && wrote ? `: reads ${read}, writes ${wrote}` : ""); group.append(b);
    });
  });
  const other = back ? ["post_grad", "forward"] : ["post_grad_backward", "backward"], to = other.find(s => T.parts.some(p => s in p.pics));
  if (elsewhere && to) { const b = button(`and ${elsewhere} in ${back ? "forward" : "backward"}`, "show " + D.stages[to], () => { choose(stageSlot.firstChild, to); setStage(to); }); b.className = "more-k"; (legend.lastChild || legend).append(b); }
  legend.hidden = !legend.children.length;
}

// ---- graphs
function drawGraphs() {
  graph.body.textContent = ""; nodes = []; byLine = new Map(); kernelParts = new Map();
  const stack = make("div", "stack");
  T.parts.forEach((part, p) => {
    part.before.forEach(s => stack.append(seam(s)));
    const many = T.parts.length > 1;
    const ops = stage in part.pics ? kept(part.pics[stage]).ops : 0;
    const title = many || part.fn ? `<b>${esc(part.name)}</b> <code>${esc(part.fn)}</code> <span class="id">${ops ? plural(ops, "op") + " · " : ""}compile ${esc(part.id)}</span>` : "";
    if (title) stack.append(make("div", "gh", title));
    nodes[p] = new Map();
    if (part.error) stack.append(make("div", "none", `<b>The compile failed</b><p>${esc(part.error)}</p>`));
    else if (stage in part.pics) {
      const P = kept(part.pics[stage]), n = P.f.reduce((sum, f) => sum + f[1].length, 0);
      if (n) stack.append(button(open.has(part.id) ? "fold equal blocks" : `open the blocks (${plural(n, "more node")})`, "show each block, or equal ones once", () => { open.has(part.id) ? open.delete(part.id) : open.add(part.id); drawGraphs(); hint(); }));
      stack.append(drawing(open.has(part.id) ? unfold(P) : P, p, part));
    }
    else stack.append(make("div", "absent", stage === "dynamo" && part.cut ? part.cut : Object.keys(part.pics).length ? "no " + D.stages[stage] + " graph" : "no graph"));
    part.after.forEach(s => stack.append(seam(s)));
  });
  if (!T.parts.length) stack.append(make("div", "absent", "no graph"));
  graph.body.append(stack);
  dots(); strip(); fit();
}
function seam(s) {
  const b = make("button", "seam " + s.kind, `<span class="sg" aria-hidden="true">${s.kind === "break" ? "✂" : "↻"}</span><span><b>${esc(s.t)}</b>${s.tag ? ` <span class="tag">${esc(s.tag)}</span>` : ""}<span class="why">${prose(s.r)}</span>${s.d && s.d !== s.r ? `<span class="more">${prose(s.d)}</span>` : ""}</span>`);
  b.type = "button"; b.dataset.at = JSON.stringify(s.at);
  return b;
}
function strip() {
  graph.head.querySelectorAll(".jump").forEach(e => e.remove());
  if (T.parts.length < 2) return;
  T.parts.forEach((part, p) => {
    part.before.forEach(s => graph.head.append(make("span", "jump cut " + s.kind, s.kind === "break" ? "✂" : "↻")));
    const b = button(esc(part.name.replace("Graph ", "")), "go to " + part.name, () => { const h = graph.body.querySelectorAll(".gh")[p]; scroll(graph.body, h, 0, true); if (part.docs.length) setDoc(p, 0); });
    b.classList.add("jump"); graph.head.append(b);
  });
}
function drawing(P, p, part) {
  const svg = el("svg", {viewBox: `0 0 ${P.w} ${P.h}`, role: "group", "aria-label": `${part.name}, ${D.stages[stage]}: ${plural(P.n.length, "node")}`});
  svg.dataset.w = P.w; svg.dataset.h = P.h;
  const kin = (p, k) => { const key = p + ":" + k; if (!kernelParts.has(key)) kernelParts.set(key, {nodes: [], marks: []}); return kernelParts.get(key); };
  const titles = [];
  P.o.forEach(([x, y, w, h, title, k]) => {
    const g = el("g", k < 0 ? {class: "ol fold"} : {class: "ol", style: ink(number(p, k))});
    g.append(el("rect", {x, y, width: w, height: h, rx: 10}));
    const t = el("text", {class: "ot", x: x + 9, y: y + 14}, k < 0 ? title : `${number(p, k) + 1} · ${title}`);
    if (k >= 0) t.style = ink(number(p, k));
    titles.push(t);
    if (k >= 0) kin(p, k).marks.push(g);
    svg.append(g);
  });
  const list = P.n.map(([name, label, size, x, y, w, op, ks, at, saved]) => ({name: name || label, label, size, x, y, w, op, ks, at, saved, p, from: [], to: [], edges: []}));
  P.e.forEach(([a, b, line]) => { const e = el("path", {class: "e", d: rounded(line)}); svg.append(e); list[a].to.push(list[b]); list[b].from.push(list[a]); list[a].edges.push(e); list[b].edges.push(e); });
  svg.append(...titles); // after the edges, whose lines would cross them
  for (const n of list) {
    const g = el("g", {class: "n " + n.op + (n.ks.length ? "" : " free"), tabindex: -1, role: "button"});
    const where = n.at ? `, line ${n.at[1]}` : "", kernels = n.ks.map(k => number(p, k) + 1).join(" and ");
    g.setAttribute("aria-label", `${n.op === "i" ? "input " : ""}${n.label}${n.size ? ", " + words(n.size) : ""}${kernels ? ", kernel " + kernels : ""}${where}${n.saved ? ", saved for backward" : ""}`);
    if (n.ks.length) g.style = ink(number(p, n.ks[0]));
    g.append(el("rect", {x: n.x - n.w / 2, y: n.y - 18, width: n.w, height: 36, rx: n.op === "c" ? 6 : 18}), el("text", {x: n.x, y: n.y + (n.size ? -2 : 4)}, n.label));
    if (n.size) g.append(el("text", {class: "z", x: n.x, y: n.y + 11}, n.size));
    n.ks.slice(0, 3).forEach((k, i) => { const cx = n.x + n.w / 2 - 3 - i * 13, b = el("g", {class: "badge", style: ink(number(p, k))}); b.append(el("circle", {cx, cy: n.y - 17, r: 7}), el("text", {x: cx, y: n.y - 14}, number(p, k) + 1)); g.append(b); });
    if (n.saved) { const x = n.x - n.w / 2 + 4, b = el("g", {class: "saved"}); b.append(el("rect", {x, y: n.y - 24, width: 34, height: 12, rx: 6}), el("text", {x: x + 17, y: n.y - 15}, "saved")); g.append(b); }
    n.el = g; g.node = n; svg.append(g); nodes[p].set(n.name, n);
    if (n.at) { const key = n.at.join(":"); if (!byLine.has(key)) byLine.set(key, []); byLine.get(key).push(n); }
    n.ks.forEach(k => kin(p, k).nodes.push(n));
  }
  P.f.forEach(([shown, hidden]) => hidden.forEach((name, i) => nodes[p].set(name, list[shown[i % shown.length]])));
  const first = list.find(n => n.op === "c") || list[0];
  if (first) first.el.setAttribute("tabindex", 0);
  return svg;
}
function dots() {
  src.body.querySelectorAll(".l").forEach(l => {
    const own = byLine.get(l.dataset.f + ":" + l.dataset.l) || [], ks = [...new Set(own.flatMap(n => n.ks.map(k => number(n.p, k))))].sort((a, b) => a - b);
    l.children[1].innerHTML = ks.slice(0, 3).map(n => `<i class="dot" style="${ink(n)}">${n + 1}</i>`).join("") + (ks.length > 3 ? "+" : "");
    l.classList.toggle("has", own.length > 0);
    if (own.length) { l.tabIndex = -1; l.setAttribute("role", "button"); l.setAttribute("aria-label", `line ${l.dataset.l}: ${l.lastChild.textContent.trim()}, ${plural(own.length, "node")}${ks.length ? ", kernel " + ks.map(n => n + 1).join(" and ") : ""}`); }
    else { l.removeAttribute("role"); l.removeAttribute("tabindex"); l.removeAttribute("aria-label"); }
  });
  const first = src.body.querySelector(".l.has"); if (first) first.tabIndex = 0;
  src.body.style.setProperty("--dots", Math.max(1, ...[...src.body.querySelectorAll(".dots")].map(d => d.children.length)));
  T.parts.forEach(part => [...part.before, ...part.after].forEach(s => { if (s.kind === "break") lineOf(s.at)?.classList.add("cut"); }));
  D.none.forEach(n => lineOf(n.at)?.classList.add("cut"));
}

// ---- generated code
function noCode() {
  doc = null; codeLines = new Map(); lineKernels = new Map(); lineNodes = new Map(); code.body.textContent = "";
  code.section.hidden = true; panes.dataset.code = "none";
}
function setDoc(p, d) {
  if (doc && doc[0] === p && doc[1] === d) return;
  doc = [p, d];
  const part = T.parts[p], text = kept(part.docs[d][1]), box = make("pre");
  codeLines = new Map(); lineKernels = new Map(); lineNodes = new Map();
  text.k.forEach(([k, runs]) => runs.forEach(([a, b]) => { for (let i = a; i <= b; i++) lineKernels.set(i, k); }));
  for (const i in text.n) lineNodes.set(+i, text.n[i]);
  let last = -1;
  text.c.forEach(([first, lines], chunk) => lines.split("\n").forEach((line, j) => {
    if (chunk && !j) box.append(make("span", "gap", "⋯"));
    const i = first + j, k = lineKernels.has(i) ? lineKernels.get(i) : -1, begins = k >= 0 && k !== last;
    const s = make("span", "l" + (k >= 0 ? " in" : "") + (begins ? " first" : ""), `<i class="no">${i}</i><span class="dots">${begins ? `<i class="dot">${number(p, k) + 1}</i>` : ""}</span><span class="x">${spans(line).replace(/^ +/, s => `<span class="sp">${s}</span>`) || " "}</span>`);
    if (k >= 0) s.style = ink(number(p, k));
    s.dataset.l = i; codeLines.set(i, s); box.append(s); last = k;
  }));
  code.body.textContent = ""; code.body.append(box);
  if (text.x) code.body.append(make("div", "left", esc(text.x)));
  code.section.hidden = false; delete panes.dataset.code; code.body.scrollTop = 0;
  code.head.textContent = "";
  const tab = part.docs.map(([, i], d) => [String(d), kept(i).t]);
  const kind = part.which.length ? `Generated ${text.g || "code"}` : "Graph as text";
  code.title.textContent = (T.parts.length > 1 ? part.name + " · " : "") + kind;
  if (tab.length > 1) code.head.append(tabs("Text", tab, String(d), key => setDoc(p, +key)));
  else code.head.append(make("span", "id", esc(tab[0][1])));
}
function docFor(p, k) {
  const module = T.parts[p].k[k][5];
  setDoc(p, module);
}

// ---- one spot in all panes
const mark = (e, cls) => { if (e) { e.classList.add(cls); lit.push(e, cls); } };
function clear() { for (let i = 0; i < lit.length; i += 2) lit[i].classList.remove(lit[i + 1]); lit = []; root.classList.remove("picking"); }
function scroll(body, target, room = 40, top = false) {
  if (!target) return;
  const b = body.getBoundingClientRect(), t = target.getBoundingClientRect(), move = {};
  if (top || t.top < b.top + 8 || t.bottom > b.bottom - 8) move.top = body.scrollTop + t.top - b.top - (top ? 0 : Math.min(room + (b.height - t.height) / 4, b.height / 3));
  if (!top && target.ownerSVGElement && (t.left < b.left || t.right > b.right)) move.left = body.scrollLeft + t.left - b.left - b.width / 3;
  if ("top" in move || "left" in move) body.scrollTo({...move, behavior: matchMedia("(prefers-reduced-motion:reduce)").matches ? "auto" : "smooth"});
}
// spot: {nodes: strong ones, kernels: [[p, k]], lines: code lines, from: pane it was chosen in}
function apply(spot) {
  clear();
  const {kernels, from} = spot;
  root.classList.toggle("picking", spot.nodes.length + kernels.length > 0);
  const shown = kernels.find(([p, k]) => doc && doc[0] === p && (T.parts[p].k[k][5] === doc[1] || T.parts[p].docs[doc[1]][0] === "ptx")) || kernels[0];
  if (shown && from !== "code" && !(doc && doc[0] === shown[0] && T.parts[doc[0]].docs[doc[1]][0] === "ptx")) docFor(...shown);
  if (!kernels.length && spot.nodes[0] && from !== "code" && T.parts[spot.nodes[0].p].docs.length) setDoc(spot.nodes[0].p, textOf(spot.nodes[0].p));
  const strong = new Set(spot.nodes), sourceLines = new Set(), soft = new Set();
  for (const [p, k] of kernels) {
    const parts = kernelParts.get(p + ":" + k);
    parts?.nodes.forEach(n => { if (!strong.has(n)) { mark(n.el, "kin"); if (n.at) soft.add(n.at.join(":")); } });
    parts?.marks.forEach(m => mark(m, "on"));
    mark(legend.querySelector(`[data-p="${p}"][data-k="${k}"]`), "on");
  }
  strong.forEach(n => { mark(n.el, "sel"); if (n.at) sourceLines.add(n.at.join(":")); });
  if (strong.size === 1) spot.nodes[0].edges.forEach(e => mark(e, "on"));
  if (spot.at) sourceLines.add(spot.at.join(":"));
  const line = key => lineOf(key.split(":"));
  soft.forEach(key => { if (!sourceLines.has(key)) mark(line(key), "kin"); });
  sourceLines.forEach(key => mark(line(key), "sel"));
  let code0 = null, precise = null;
  const names = new Set(spot.nodes.map(n => n.name));
  codeLines.forEach((e, i) => {
    const exact = spot.lines ? spot.lines.includes(i) : doc && spot.nodes.some(n => n.p === doc[0]) && lineNodes.get(i)?.some(n => names.has(n) || names.has(nodes[doc[0]].get(n)?.name));
    const k = lineKernels.get(i), inside = k !== undefined && kernels.some(([p, q]) => p === doc[0] && q === k);
    if (exact) { mark(e, "sel"); precise ||= e; } else if (inside) { mark(e, "kin"); code0 ||= e; }
  });
  if (from !== "code") scroll(code.body, precise || code0);
  if (from !== "src") scroll(src.body, lineOf([...sourceLines][0]?.split(":")) || lineOf([...soft][0]?.split(":")));
  if (from !== "graph") scroll(graph.body, spot.nodes[0]?.el || kernelParts.get(kernels[0]?.join(":"))?.nodes[0]?.el);
  say(spot);
}
const textOf = p => Math.max(0, T.parts[p].docs.findIndex(([which]) => which === stage));
const unique = pairs => [...new Map(pairs.map(x => [x.join(":"), x])).values()];
const ofNodes = (list, from, extra) => ({nodes: list, kernels: unique(list.flatMap(n => n.ks.map(k => [n.p, k]))), from, ...extra});
const ofLine = (at, from) => ofNodes(byLine.get(at.join(":")) || [], from, {at});
const ofKernel = (p, k, from) => ({nodes: [], kernels: [[p, k]], from});
function ofCode(i) {
  const p = doc[0], k = lineKernels.get(i), exact = (lineNodes.get(i) || []).map(n => nodes[p].get(n)).filter(Boolean);
  if (k === undefined && !exact.length) return null;
  return {nodes: [...new Set(exact)], kernels: k === undefined ? unique(exact.flatMap(n => n.ks.map(q => [p, q]))) : [[p, k]], from: "code", lines: [i]};
}
function say(spot) {
  const one = spot.nodes.length === 1 && spot.nodes[0], out = [];
  if (one) out.push(`<b>${esc(one.label)}</b>${one.name !== one.label ? " (" + esc(one.name) + ")" : ""} ${esc(one.size)}`, one.at ? "line " + one.at[1] : "", one.saved ? "saved for backward" : "");
  else if (spot.nodes.length) out.push((spot.at ? `line ${spot.at[1]}: ` : "") + plural(spot.nodes.length, "node"));
  for (const [p, k] of spot.kernels.slice(0, 3)) { const [name, fused, time, read, wrote] = T.parts[p].k[k]; out.push(`<i class="dot" style="${ink(number(p, k))}">${number(p, k) + 1}</i> ${esc(name)}: ${fused}${read && wrote ? `, reads ${read}, writes ${wrote}` : ""}${time ? `, took ${time}` : ""}`); }
  if (spot.kernels.length > 3) out.push("and " + plural(spot.kernels.length - 3, "more kernel"));
  if (one && one.op === "c" && !one.ks.length && T.parts[one.p].k.length && !(stage === "dynamo" && T.parts[one.p].of)) out.push("no kernel of its own");
  status.innerHTML = out.filter(Boolean).join(" · ");
}
function hint() { clear(); status.textContent = D.empty ? "" : "Point at a line, a node or a kernel: the other panes follow. Click to keep it, Esc to let go. In the graph, arrow keys follow the edges."; }

function spotAt(target) {
  const n = target.closest?.("g.n"); if (n) return ofNodes([n.node], "graph");
  const chip = target.closest?.(".chip"); if (chip) return ofKernel(+chip.dataset.p, +chip.dataset.k, "legend");
  const l = target.closest?.(".l"); if (!l) return null;
  if (src.body.contains(l)) return l.classList.contains("has") ? ofLine([+l.dataset.f, +l.dataset.l], "src") : null;
  return ofCode(+l.dataset.l);
}
const same = (a, b) => a && b && a.from === b.from && a.nodes[0] === b.nodes[0] && String(a.kernels) === String(b.kernels) && String(a.at) === String(b.at);
let over = null;
root.addEventListener("pointerover", e => {
  if (e.pointerType === "touch") return;
  const key = e.target.closest?.("g.n,.chip,.l");
  if (key === over) return;
  over = key;
  const spot = key && spotAt(key);
  if (spot) apply(spot); else if (key || !pinned) pinned ? apply({...pinned, from: "all"}) : hint();
});
panes.addEventListener("pointerleave", () => { over = null; pinned ? apply(pinned) : hint(); });
root.addEventListener("click", e => {
  const s = e.target.closest?.(".seam");
  if (s) { const l = lineOf(JSON.parse(s.dataset.at)); clear(); mark(l, "sel"); mark(s, "on"); scroll(src.body, l); s.classList.toggle("open"); return; }
  const spot = spotAt(e.target);
  if (!spot) return;
  pinned = same(pinned, spot) ? null : spot;
  pinned ? apply(pinned) : hint();
});
root.addEventListener("focusin", e => {
  if (!e.target.matches(":focus-visible")) return;
  const spot = e.target.matches("g.n,.chip,.l") && spotAt(e.target);
  if (spot) { pinned = spot; apply(spot); }
});
root.addEventListener("keydown", e => {
  const t = e.target;
  if (e.key === "Escape") { pinned = null; find.value = ""; hint(); return; }
  if (t.matches("g.n,.l") && (e.key === "Enter" || e.key === " ")) { e.preventDefault(); pinned = spotAt(t); pinned && apply(pinned); return; }
  let go = null;
  if (t.matches("g.n")) {
    const n = t.node, row = dir => [...nodes[n.p].values()].filter(m => Math.abs(m.y - n.y) < 20 && (m.x - n.x) * dir > 0).sort((a, b) => Math.abs(a.x - n.x) - Math.abs(b.x - n.x))[0];
    const near = list => [...list].sort((a, b) => Math.abs(a.x - n.x) - Math.abs(b.x - n.x))[0];
    go = {ArrowDown: () => near(n.to), ArrowUp: () => near(n.from), ArrowRight: () => row(1), ArrowLeft: () => row(-1)}[e.key]?.()?.el;
    if (/^Arrow/.test(e.key)) e.preventDefault();
    if (go) { t.setAttribute("tabindex", -1); go.setAttribute("tabindex", 0); }
  } else if (t.matches(".src .l") && /^Arrow(Up|Down)$/.test(e.key)) {
    const all = [...src.body.querySelectorAll(".l.has")]; go = all[all.indexOf(t) + (e.key === "ArrowDown" ? 1 : -1)]; e.preventDefault();
    if (go) { t.tabIndex = -1; go.tabIndex = 0; }
  }
  if (go) { go.focus({preventScroll: true}); scroll(graph.body.contains(go) ? graph.body : src.body, go); }
});
let hits = [], hitAt = 0;
function search(text, next) {
  const q = text.trim().toLowerCase();
  if (!q) { pinned = null; hint(); return; }
  const found = nodes.flatMap(m => [...new Set(m.values())]).filter(n => (n.label + " " + n.name + " " + n.size).toLowerCase().includes(q));
  hitAt = next && hits.length === found.length ? (hitAt + 1) % Math.max(1, found.length) : 0; hits = found;
  pinned = {nodes: found, kernels: [], from: "find"}; apply(pinned); scroll(graph.body, found[hitAt]?.el);
  status.textContent = found.length ? `${plural(found.length, "node")} match “${text}”${found.length > 1 ? ", Enter for the next" : ""}` : `No node matches “${text}”`;
}

// ---- zoom
const drawings = () => [...graph.body.querySelectorAll("svg")];
function setZoom(z) { zoom = Math.max(.08, Math.min(3, z)); drawings().forEach(s => { s.style.width = s.dataset.w * zoom + "px"; s.style.height = s.dataset.h * zoom + "px"; }); }
function fit(whole) {
  const all = drawings(), w = Math.max(1, ...all.map(s => +s.dataset.w)), h = Math.max(1, ...all.map(s => +s.dataset.h)), room = graph.body.clientWidth - 18;
  if (room < 40 || !all.length) return;
  touched = false;
  setZoom(whole ? Math.min(1, room / w, (graph.body.clientHeight - 40) / h) : Math.max(.7, Math.min(1, room / w)));
  graph.body.scrollLeft = (graph.body.scrollWidth - graph.body.clientWidth) / 2;
}
let touched = false, width = 0;
tools.addEventListener("click", e => { if (/zoom/.test(e.target.title)) touched = true; });
graph.body.addEventListener("wheel", e => { if (e.ctrlKey || e.metaKey) { e.preventDefault(); touched = true; setZoom(zoom * (e.deltaY < 0 ? 1.12 : 1 / 1.12)); } }, {passive: false});
let drag = null;
graph.body.addEventListener("pointerdown", e => { if (e.button === 0 && e.pointerType === "mouse" && !e.target.closest("g.n,button")) drag = [e.clientX, e.clientY, graph.body.scrollLeft, graph.body.scrollTop]; });
graph.body.addEventListener("pointermove", e => { if (!drag) return; if (!graph.body.hasPointerCapture(e.pointerId)) graph.body.setPointerCapture(e.pointerId); graph.body.scrollTo(drag[2] + drag[0] - e.clientX, drag[3] + drag[1] - e.clientY); });
for (const end of ["pointerup", "pointercancel"]) graph.body.addEventListener(end, () => { drag = null; });
new ResizeObserver(() => { if (graph.body.clientWidth !== width) { width = graph.body.clientWidth; if (!touched) fit(); } }).observe(graph.body);

drawSource();
setTarget(0);
const start = src.body.querySelector(".l.has,.l.cut");
if (start) src.body.scrollTop = start.offsetTop - 60;
if (D.empty) { graph.section.hidden = code.section.hidden = bar.hidden = !T.parts.some(p => Object.keys(p.pics).length); root.classList.toggle("empty", bar.hidden); }
hint();
}
