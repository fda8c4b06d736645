// The picture with every block drawn: copies of the first one below each other, the rest moved down.
function unfold(P) {
  const Q = {w: P.w + 30, h: P.h, n: P.n.map(n => [...n]), e: P.e.map(e => [...e]), o: P.o.map(o => [...o]), f: []};
  const frames = Q.o.filter(o => o[5] < 0);
  P.f.forEach(([shown, hidden], f) => {
    const inside = new Set(shown), frame = frames[f], step = frame[3] + 26, count = hidden.length / shown.length, down = count * step, end = frame[1] + frame[3];
    const line = (a, b) => { const A = Q.n[a], B = Q.n[b]; return [A[3], A[4] + 18, B[3], B[4] - 18]; };
    const enter = new Set(), leave = new Set(), after = i => !inside.has(i) && Q.n[i][4] > end;
    Q.e.forEach(([a, b]) => { if (!inside.has(a) && inside.has(b) && Q.n[a][6] === "c") enter.add(b); if (inside.has(a) && !inside.has(b)) leave.add(a); });
    const low = Q.n.map((_, i) => after(i));
    Q.n.forEach((n, i) => { if (low[i]) n[4] += down; });
    Q.o.forEach(o => { if (o !== frame && o[1] > end) o[1] += down; });
    const moved = (line, dy) => line.map((v, i) => i % 2 ? v + dy : v);
    const own = Q.e.filter(([a, b]) => inside.has(a) && inside.has(b));
    Q.e.forEach(e => { if (low[e[0]] && low[e[1]]) e[2] = moved(e[2], down); else if (low[e[1]] && !inside.has(e[0])) e[2] = line(e[0], e[1]); });
    const frameOf = [...frame];
    frame[4] = frame[4].replace(/:.*/, "") + ", block 1";
    let before = i => i;
    for (let c = 0; c < count; c++) {
      const at = Q.n.length, here = i => at + shown.indexOf(i), dy = (c + 1) * step;
      shown.forEach((i, j) => { const n = [...P.n[i]]; n[0] = hidden[c * shown.length + j]; n[4] = Q.n[i][4] + dy; Q.n.push(n); });
      own.forEach(([a, b, d]) => Q.e.push([here(a), here(b), moved(d, dy)]));
      const last = before; leave.forEach(a => enter.forEach(b => Q.e.push([last(a), here(b), line(last(a), here(b))])));
      Q.o.push([frameOf[0], frameOf[1] + dy, frameOf[2], frameOf[3], "block " + (c + 2), -1]);
      before = here;
    }
    Q.e.forEach(e => { if (inside.has(e[0]) && low[e[1]]) { e[0] = before(e[0]); e[2] = line(e[0], e[1]); } });
    Q.h += down;
  });
  return Q;
}
