// The graph as a tree of boxes: groups open and close, and only the contents of open groups are laid out and drawn.
const startGraph = () => {
  const SHOWN_FIRST = 64;
  const SHOWN_MOST = 1500;
  // A box with more lines than this shows them faintly until the pointer is on it: the lines of a weight that all steps
  // read would hide the rest.
  const MANY = 8;
  const find = (id) => document.getElementById(`graph-${id}`);
  const [tree, details, canvas, said] = [find("tree"), find("details"), find("scroll"), find("said")];
  const boxes = makeBoxes(scene.graph);
  makeEdges(boxes, scene.graph);
  const root = boxes[0];
  root.isOpen = true;
  const isGroup = (box) => box.operator === undefined;
  const shown = (box = root) => isGroup(box) && box.isOpen ? box.children.flatMap((child) => [child, ...shown(child)]) : [];
  // At smaller scales, names cannot be read.
  const LEGIBLE = 0.7;
  let current = root.children[0];
  let zoom = 1;
  let isZoomChosen = false;

  const strip = (box) => {
    const made = element("span", "strip");
    const shares = isGroup(box) ? [...box.shares] : [[box.device, 1]];
    const whole = shares.reduce((sum, [, seconds]) => sum + seconds, 0);
    for (const [device, seconds] of shares) {
      const part = element("i", scene.devices[device].colour);
      // If nothing takes any time, all devices have equal shares.
      part.style.flexGrow = whole > 0 ? seconds / whole : 1;
      made.append(part);
    }
    return made;
  };

  const subtitle = (box) => {
    const time = scene.seconds.text[box.seconds];
    if (!isGroup(box)) return `${time} \u00b7 ${scene.devices[box.device].name}`;
    const [first] = box.shares.keys();
    const where = box.shares.size === 1 ? scene.devices[first].name : `${box.shares.size} devices`;
    return box.isOpen ? `${counted(box.size, "operator")} \u00b7 ${time} \u00b7 ${where}` : `${counted(box.size, "op")} \u00b7 ${where}`;
  };

  const draw = (box, level) => {
    const made = element("div", "box");
    Object.assign(made.style, { left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px`, height: `${box.height}px` });
    made.dataset.box = box.id;
    made.tabIndex = box === current ? 0 : -1;
    made.setAttribute("role", "treeitem");
    made.setAttribute("aria-level", level);
    const name = box.name || "(no name)";
    made.setAttribute("aria-label", `${name}, ${subtitle(box)}`);
    const face = element("div", "face");
    face.append(element("span", "title", name), element("span", "subtitle", subtitle(box)), strip(box));
    made.append(face);
    if (isGroup(box)) {
      made.setAttribute("aria-expanded", box.isOpen);
      if (box.isOpen) made.append(inside(box, level + 1));
    }
    box.element = made;
    return made;
  };

  const inside = (box, level) => {
    const group = element("div", "inside");
    if (level > 1) group.setAttribute("role", "group");
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "edges");
    svg.setAttribute("aria-hidden", "true");
    for (const edge of box.edges ?? []) {
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      line.setAttribute("d", lineOf(edge));
      line.classList.toggle("cut", edge.isCut);
      line.classList.toggle("of-many", Math.max(edge.from.degree, edge.to.degree) > MANY);
      edge.line = line;
      svg.append(line);
    }
    group.append(svg, ...box.children.map((child) => draw(child, level)));
    return group;
  };

  const scale = () => {
    tree.style.transform = `scale(${zoom})`;
    // A transform does not change the layout size, so it is set to the scaled size.
    tree.style.width = `${root.width * zoom}px`;
    tree.style.height = `${root.height * zoom}px`;
  };
  const show = () => {
    fit(root, canvas.clientWidth / LEGIBLE);
    if (!isZoomChosen) zoom = Math.min(1, Math.max(LEGIBLE, canvas.clientWidth / root.width));
    tree.replaceChildren(inside(root, 1));
    scale();
  };
  const tell = (box) => {
    for (const old of tree.querySelectorAll(".shown")) old.classList.remove("shown");
    box.element.classList.add("shown");
    for (const { from, to, line } of boxes[box.parent].edges ?? []) {
      line?.classList.toggle("shown", from === box || to === box);
    }
    details.replaceChildren(...detailsOf(box));
  };
  const go = (box) => {
    if (!box || box === root) return;
    if (current.element) current.element.tabIndex = -1;
    current = box;
    box.element.tabIndex = 0;
    box.element.focus({ preventScroll: true });
    box.element.querySelector(".face").scrollIntoView({ block: "nearest", inline: "nearest" });
    tell(box);
  };
  const toggle = (box) => {
    if (!isGroup(box)) return;
    box.isOpen = !box.isOpen;
    if (box.isOpen && shown().length > SHOWN_MOST) {
      box.isOpen = false;
      said.textContent = `At most ${count(SHOWN_MOST)} boxes are shown; close another one first.`;
      return;
    }
    current = box;
    show();
    go(box);
    said.textContent = `${box.name} ${box.isOpen ? "open" : "closed"}`;
  };
  // Opens level by level, as long as at most `most` boxes are shown.
  const open = (most) => {
    for (;;) {
      const next = shown().filter((box) => isGroup(box) && !box.isOpen);
      const more = next.reduce((sum, box) => sum + box.children.length, 0);
      if (!next.length || shown().length + more > most) return;
      for (const box of next) box.isOpen = true;
    }
  };

  const boxOf = (event) => boxes[event.target.closest?.(".box")?.dataset.box];
  tree.addEventListener("click", (event) => {
    const box = event.target.closest(".face") && boxOf(event);
    if (!box) return;
    go(box);
    toggle(box);
  });
  tree.addEventListener("pointerover", (event) => {
    const box = event.target.closest(".face") && boxOf(event);
    if (box) tell(box);
  });
  tree.addEventListener("focusin", (event) => {
    const box = boxOf(event);
    if (box) tell(box);
  });
  tree.addEventListener("keydown", (event) => {
    const box = boxOf(event);
    if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = shown();
    const at = all.indexOf(box);
    const keys = {
      ArrowDown: () => go(all[at + 1]),
      ArrowUp: () => go(all[at - 1]),
      ArrowRight: () => isGroup(box) && (box.isOpen ? go(box.children[0]) : toggle(box)),
      ArrowLeft: () => isGroup(box) && box.isOpen ? toggle(box) : go(boxes[box.parent]),
      Home: () => go(all[0]),
      End: () => go(all.at(-1)),
      Enter: () => toggle(box),
      " ": () => toggle(box),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  find("expand").addEventListener("click", () => {
    open(SHOWN_MOST);
    show();
    said.textContent = `${counted(shown().length, "box is", "boxes are")} shown.`;
  });
  find("collapse").addEventListener("click", () => {
    for (const box of shown()) box.isOpen = false;
    current = root.children[0];
    show();
    said.textContent = `${counted(shown().length, "box is", "boxes are")} shown.`;
  });
  const resize = (factor) => () => {
    zoom = Math.min(2, Math.max(0.25, zoom * factor));
    isZoomChosen = true;
    scale();
  };
  find("smaller").addEventListener("click", resize(0.8));
  find("larger").addEventListener("click", resize(1.25));

  scene.devices.forEach((device, at) => {
    const item = element("li");
    item.append(chip(at), element("bdi", "", device.name));
    find("legend").append(item);
  });
  find("view").hidden = false;
  open(SHOWN_FIRST);
  show();
};
if (scene?.graph) startGraph();

