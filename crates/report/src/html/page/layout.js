// Layout of the boxes. A group lays out its children in ranks, each below the ranks that it reads from; an open
// group takes the space that its children need. A graph that is longer than wide continues in another column.
const LEAF = { width: 148, height: 46 };
const GAP = 14;
const RANK_GAP = 22;
const PADDING = 14;
const HEAD = 44;
// Maximum number of boxes in a row and target aspect ratio of a group, from the widest drawing to the narrowest.
const ROOMS = [[6, 1.2], [6, 0.6], [4, 0.4], [3, 0.25], [2, 0.12], [1, 0.03], [1, 0]];

// Edges between the children of each group. Each edge between operators belongs to the innermost group that
// contains both ends, so one pass over the graph finds all.
const makeEdges = (boxes, { operators }) => {
  const first = boxes.length - operators.group.length;
  const depth = [];
  for (const box of boxes.slice(0, first)) depth.push(box.id === 0 ? 0 : depth[box.parent] + 1);
  const found = new Map();
  let at = 0;
  operators.readers.forEach((readers, operator) => {
    for (const end = at + readers; at < end; at += 1) {
      const reader = operator + operators.steps[at];
      let [from, to] = [boxes[first + operator], boxes[first + reader]];
      const isCut = from.device !== to.device;
      while (from.parent !== to.parent) {
        if (depth[from.parent] >= depth[to.parent]) from = boxes[from.parent];
        else to = boxes[to.parent];
      }
      // The ends coincide only if both are the same operator.
      if (from === to) continue;
      const known = found.get(from.id * boxes.length + to.id);
      if (known) known.isCut ||= isCut;
      else {
        const edge = { from, to, isCut };
        found.set(from.id * boxes.length + to.id, edge);
        (boxes[from.parent].edges ??= []).push(edge);
      }
    }
  });
  // Gradients return along the path of the activations: one line represents both.
  const place = new Map(boxes.flatMap(({ children }) => (children ?? []).map((child, at) => [child, at])));
  for (const group of boxes.slice(0, first)) {
    group.edges = group.edges?.filter((edge) => {
      const mirrored = found.get(edge.to.id * boxes.length + edge.from.id);
      if (!mirrored || place.get(edge.from) < place.get(edge.to)) return true;
      mirrored.isCut ||= edge.isCut;
      return false;
    });
    for (const { from, to } of group.edges ?? []) {
      from.degree = (from.degree ?? 0) + 1;
      to.degree = (to.degree ?? 0) + 1;
    }
  }
};

// Ranks of the children of a group. Backward edges, such as those of gradients to the layer of their forward
// pass, are ignored.
const ranksOf = (group) => {
  const place = new Map(group.children.map((child, at) => [child, at]));
  const ahead = group.children.map(() => []);
  const behind = group.children.map(() => []);
  for (const { from, to } of group.edges ?? []) {
    const [a, b] = [place.get(from), place.get(to)];
    if (a < b) {
      ahead[a].push(b);
      behind[b].push(a);
    }
  }
  const rank = group.children.map(() => 0);
  ahead.forEach((readers, at) => readers.forEach((reader) => { rank[reader] = Math.max(rank[reader], rank[at] + 1); }));
  // A box without inputs is just before its first reader, not at the very top.
  for (let at = rank.length - 1; at >= 0; at -= 1) {
    if (!behind[at].length && ahead[at].length) rank[at] = Math.min(...ahead[at].map((reader) => rank[reader])) - 1;
  }
  const ranks = [];
  rank.forEach((level, at) => (ranks[level] ??= []).push(at));
  // Each rank is sorted by the mean position of its inputs (barycentre heuristic).
  const across = group.children.map(() => 0);
  for (const members of ranks.filter(Boolean)) {
    const middle = (at) => behind[at].length ? behind[at].reduce((sum, from) => sum + across[from], 0) / behind[at].length : 0;
    const wanted = new Map(members.map((at) => [at, middle(at)]));
    members.sort((a, b) => wanted.get(a) - wanted.get(b) || a - b);
    members.forEach((at, index) => { across[at] = index - (members.length - 1) / 2; });
  }
  return ranks.filter(Boolean).map((members) => members.map((at) => group.children[at]));
};

// Sets the size and position of everything that an open group shows, as the widest drawing that fits into a width; as the
// narrowest if none fits.
const fit = (box, width) => {
  for (const room of ROOMS) {
    layOut(box, room);
    if (box.width <= width) return;
  }
};

const layOut = (box, room) => {
  const [widest, aspect] = room;
  if (!box.isOpen) {
    [box.width, box.height] = [LEAF.width, LEAF.height];
    return;
  }
  for (const child of box.children) layOut(child, room);
  const rows = [];
  for (const rank of (box.ranks ??= ranksOf(box))) {
    for (let at = 0; at < rank.length; at += widest) rows.push(rank.slice(at, at + widest));
  }
  const sized = rows.map((row) => ({
    row,
    width: row.reduce((sum, child) => sum + child.width + GAP, -GAP),
    height: Math.max(...row.map((child) => child.height)),
  }));
  const area = sized.reduce((sum, { width, height }) => sum + (width + 2 * GAP) * (height + RANK_GAP), 0);
  const tallest = Math.max(320, Math.sqrt(area / aspect), ...sized.map(({ height }) => height));
  const columns = [[]];
  let height = 0;
  for (const row of sized) {
    if (height > 0 && height + row.height > tallest) {
      columns.push([]);
      height = 0;
    }
    columns.at(-1).push(row);
    height += row.height + RANK_GAP;
  }
  let [left, bottom] = [PADDING, 0];
  columns.forEach((column, number) => {
    const width = Math.max(...column.map((row) => row.width));
    let top = box.id === 0 ? PADDING : HEAD;
    for (const { row, width: taken, height: tall } of column) {
      let x = left + (width - taken) / 2;
      for (const child of row) {
        [child.x, child.y, child.column] = [x, top, number];
        x += child.width + GAP;
      }
      top += tall + RANK_GAP;
    }
    bottom = Math.max(bottom, top - RANK_GAP);
    left += width + 3 * GAP;
  });
  [box.width, box.height] = [Math.max(left - 3 * GAP + PADDING, LEAF.width), bottom + PADDING];
};

// The line of an edge: straight down if possible, else around.
const lineOf = ({ from, to }) => {
  const middle = (box) => box.x + box.width / 2;
  const isBack = from.column > to.column || (from.column === to.column && from.y >= to.y);
  if (isBack) {
    const [x0, y0, x1, y1] = [from.x, from.y + from.height / 2 + 6, to.x, to.y + to.height / 2 + 6];
    const out = Math.min(x0, x1) - 10;
    return `M${x0} ${y0}C${out} ${y0} ${out} ${y1} ${x1} ${y1}`;
  }
  if (from.column === to.column) {
    const [x0, y0, x1, y1] = [middle(from), from.y + from.height, middle(to), to.y];
    const bend = Math.max(10, (y1 - y0) / 2);
    // An edge that passes other ranks is routed beside them.
    const far = y1 - y0 > 2 * RANK_GAP ? Math.min(60, (y1 - y0) / 6) + Math.max(from.width, to.width) / 2 : 0;
    return `M${x0} ${y0}C${x0 + far} ${y0 + bend} ${x1 + far} ${y1 - bend} ${x1} ${y1}`;
  }
  const [x0, y0, x1, y1] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2];
  const bend = Math.max(16, (x1 - x0) / 2);
  return `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
};

