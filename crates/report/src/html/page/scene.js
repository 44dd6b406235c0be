// The data of the page and its conversion from columns into boxes.
const scene = JSON.parse(document.getElementById("scene").textContent);

// Creates an element with a class and a text, never markup: names come from untrusted files.
const element = (tag, className = "", text = "") => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
};
const chip = (device) => element("i", `chip ${scene.devices[device].colour}`);
const grouped = new Intl.NumberFormat("en", { useGrouping: "min2" });
const count = (number) => grouped.format(number).replaceAll(",", "\u202f");
const counted = (number, one, several = `${one}s`) => `${count(number)} ${number === 1 ? one : several}`;

// Boxes: the groups by index, then the operators.
const makeBoxes = ({ groups, operators }) => {
  const groupCount = groups.parent.length;
  const boxes = groups.parent.map((parent, group) => ({
    id: group, parent, name: groups.name[group], children: [], size: 0, shares: new Map(),
    seconds: groups.seconds[group], bytes: groups.bytes[group], isOpen: false, edges: null,
  }));
  const { texts } = scene;
  operators.group.forEach((parent, operator) => {
    const box = {
      id: groupCount + operator, parent, operator, name: texts[operators.name[operator]], size: 1,
      seconds: operators.seconds[operator], bytes: operators.bytes[operator], device: operators.device[operator],
    };
    boxes.push(box);
    // A group is added to its parent together with the group's first operator.
    for (let child = box, at = parent; ; child = boxes[at], at = boxes[at].parent) {
      const group = boxes[at];
      const isNew = child === box || child.size === 1;
      group.size += 1;
      group.shares.set(box.device, (group.shares.get(box.device) ?? 0) + scene.seconds.value[box.seconds]);
      if (isNew) group.children.push(child);
      if (at === 0) break;
    }
  });
  order(boxes, operators);
  return boxes;
};

// Sorts the children of every group in dataflow order: by the mean depth (longest path) of their forward operators,
// because in a training step gradients return to the layer that they left from.
const order = (boxes, { group, pass, readers, steps }) => {
  const depth = new Float64Array(group.length);
  let at = 0;
  readers.forEach((number, from) => {
    for (const end = at + number; at < end; at += 1) {
      depth[from + steps[at]] = Math.max(depth[from + steps[at]], depth[from] + 1);
    }
  });
  for (const box of boxes) [box.forward, box.depth] = [0, 0];
  group.forEach((_, operator) => {
    const leaf = boxes[boxes.length - group.length + operator];
    for (let box = leaf; ; box = boxes[box.parent]) {
      if (pass[operator] === 0 || box === leaf) [box.forward, box.depth] = [box.forward + 1, box.depth + depth[operator]];
      if (box.id === 0) break;
    }
  });
  // Boxes without forward operators come last.
  const place = ({ depth, forward }) => forward ? depth / forward : Infinity;
  for (const { children } of boxes) children?.sort((one, other) => place(one) - place(other) || one.id - other.id);
};

