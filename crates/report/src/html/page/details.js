// Details of a box, shown beside the graph.
const PASSES = ["forward", "backward", "update"];
const LISTED = 8;

const fullName = (operator) => {
  const { stem, name } = scene.graph.operators;
  return scene.texts[stem[operator]] + scene.texts[name[operator]];
};

// Inputs of every operator, computed on first use.
let sourcesOf = null;
const neighboursOf = (operator) => {
  const { readers, steps } = scene.graph.operators;
  if (!sourcesOf) {
    sourcesOf = readers.map(() => []);
    let at = 0;
    readers.forEach((number, from) => {
      for (const end = at + number; at < end; at += 1) sourcesOf[from + steps[at]].push(from);
    });
  }
  const start = readers.slice(0, operator).reduce((sum, number) => sum + number, 0);
  const targets = steps.slice(start, start + readers[operator]).map((step) => operator + step);
  return [sourcesOf[operator], targets];
};

const figures = (rows) => {
  const list = element("dl");
  for (const [name, text, title] of rows) {
    const value = element("dd", "", text);
    if (title !== undefined) value.title = title;
    list.append(element("dt", "", name), value);
  }
  return list;
};

const listOf = (heading, operators) => {
  if (!operators.length) return [];
  const list = element("ul");
  for (const operator of operators.slice(0, LISTED)) {
    const item = element("li");
    item.append(chip(scene.graph.operators.device[operator]), element("bdi", "", fullName(operator)));
    list.append(item);
  }
  if (operators.length > LISTED) list.append(element("li", "", `and ${count(operators.length - LISTED)} more`));
  return [element("h4", "", heading), list];
};

const quantities = (box) => [
  ["time", scene.seconds.text[box.seconds], `${scene.seconds.value[box.seconds]} s`],
  ["memory", scene.bytes.text[box.bytes], `${scene.bytes.value[box.bytes]} bytes`],
];

const detailsOf = (box) => {
  if (box.operator === undefined) {
    const shares = [...box.shares].sort(([, one], [, other]) => other - one);
    const whole = scene.seconds.value[box.seconds];
    const list = element("ul");
    for (const [device, seconds] of shares.slice(0, 4 * LISTED)) {
      const item = element("li");
      item.append(chip(device), element("bdi", "", scene.devices[device].name));
      if (whole > 0) item.append(element("span", "", `${Math.round((100 * seconds) / whole)}% of time`));
      list.append(item);
    }
    const rows = [[box.size === 1 ? "operator" : "operators", count(box.size)], ...quantities(box)];
    return [element("h3", "", box.name), figures(rows), element("h4", "", "Devices"), list];
  }
  const { kind, pass } = scene.graph.operators;
  const rows = [
    ["device", scene.devices[box.device].name],
    ...(kind[box.operator] === null ? [] : [["kind", scene.texts[kind[box.operator]]]]),
    ["pass", PASSES[pass[box.operator]]],
    ...quantities(box),
  ];
  const [sources, targets] = neighboursOf(box.operator);
  return [
    element("h3", "", fullName(box.operator)), figures(rows),
    ...listOf("Reads from", sources), ...listOf("Read by", targets),
  ];
};

