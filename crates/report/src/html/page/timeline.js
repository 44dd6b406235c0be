// A timeline: a strip of canvas for each row, and a cursor that the pointer and the arrow keys move. In the timeline of
// the full pipeline, every activity belongs to one of several batches. In an iteration of microbatches, the key gives
// the names and colours of passes; otherwise a pass has the colour of its device. In a run on this machine, activities
// belong to samples.
const startTimeline = (id, { ticks, axis, rows, microbatches, samples }, isPipeline) => {
  const STRENGTH = [1, 0.62, 0.4, 0.8, 0.8];
  const [UPDATE, TRANSFER, GRADIENTS, SEVERAL] = [2, 3, 4, 6];
  const holder = document.getElementById(`${id}-rows`);
  const said = document.getElementById(`${id}-said`);
  const view = document.getElementById(`${id}-view`);
  const swatches = [...view.querySelectorAll("[data-pass]")];
  const strips = [];
  let cursor = null;

  view.hidden = false;
  document.getElementById(`${id}-axis`).append(...axis.map((moment) => element("span", "", moment)));
  let last = null;
  for (const row of rows) {
    const isNew = row.device === null || row.device !== last?.device;
    const colour = scene.devices[row.device]?.colour;
    if (isNew) {
      const owner = element("div", "of-device");
      const label = element("span", "device");
      if (colour) label.append(chip(row.device));
      label.append(element("bdi", "", row.device === null ? row.name : scene.devices[row.device].name));
      owner.append(label);
      holder.append(owner);
      last = { device: row.device, owner };
    }
    const canvas = element("canvas");
    canvas.height = ["computes", "runs", "predicted"].includes(row.name) ? 20 : 8;
    canvas.style.height = `${canvas.height}px`;
    canvas.dataset.height = canvas.height;
    if (colour) canvas.classList.add(...colour.split(" "));
    last.owner.append(element("span", "does", row.device === null ? "carries" : row.name), canvas);
    strips.push(canvas);
  }

  const draw = (number) => {
    const [canvas, row] = [strips[number], rows[number]];
    const style = getComputedStyle(canvas);
    const dense = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    if (!width) return;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(canvas.dataset.height * dense);
    const context = canvas.getContext("2d");
    const ofDevice = style.getPropertyValue("accent-color");
    const colourOf = (swatch) => [swatch.dataset.pass, getComputedStyle(swatch).backgroundColor];
    const ofPass = Object.fromEntries(swatches.map(colourOf));
    const scale = canvas.width / ticks;
    row.start.forEach((start, at) => {
      const own = ofPass[row.pass[at]];
      context.fillStyle = own ?? ofDevice;
      context.globalAlpha = own ? 1 : STRENGTH[row.pass[at]];
      // A gap of one pixel separates spans that are long enough to be seen on their own.
      const wide = row.ticks[at] * scale;
      context.fillRect(start * scale, 0, Math.max(1, wide > 4 * dense ? wide - dense : wide), canvas.height);
    });
    if (cursor?.row === number) {
      context.globalAlpha = 1;
      context.strokeStyle = style.color;
      context.lineWidth = 2 * dense;
      const wide = Math.max(3 * dense, row.ticks[cursor.at] * scale);
      context.strokeRect(row.start[cursor.at] * scale, dense, wide, canvas.height - 2 * dense);
    }
  };
  const drawAll = () => rows.forEach((_, number) => draw(number));

  // The last span of a row that begins at or before a tick.
  const nearest = (row, tick) => {
    let [low, high] = [0, row.start.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (row.start[middle] <= tick) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const nameOf = (operator, kind) => {
    if (kind === GRADIENTS) return "gradients";
    if (samples) return `sample ${operator}`;
    if (!microbatches) return `${kind === TRANSFER ? "output of " : ""}${fullName(operator)}`;
    const pass = swatches.find((swatch) => Number(swatch.dataset.pass) === kind).parentElement.textContent;
    if (kind === UPDATE) return pass;
    const longest = kind === SEVERAL ? "the longest pass" : pass;
    return `${longest} of microbatch ${operator % microbatches} in stage ${Math.floor(operator / microbatches)}`;
  };
  const tell = () => {
    const row = rows[cursor.row];
    const number = row.count[cursor.at];
    const kind = row.pass[cursor.at];
    const where = row.device === null ? row.name : `${scene.devices[row.device].name} ${row.name}`;
    const what = element("b");
    what.append(element("bdi", "", nameOf(row.operator[cursor.at], kind)));
    const more = number > 1 ? ` and ${count(number - 1)} at most as long,` : "";
    const pass = kind < TRANSFER && !microbatches && !samples ? `${PASSES[kind]}, ` : "";
    const age = row.batch?.[cursor.at] ?? 0;
    const batch = isPipeline ? `, batch n${age ? ` \u2212 ${age}` : ""}` : "";
    const when = `from ${scene.seconds.text[row.from[cursor.at]]}, for ${scene.seconds.text[row.took[cursor.at]]}`;
    said.replaceChildren(element("bdi", "", where), ": ", what, `${more} ${pass}${when}${batch}`);
  };
  const move = (row, at) => {
    const before = cursor?.row;
    cursor = { row, at };
    if (before !== undefined) draw(before);
    draw(row);
    tell();
  };
  const beside = (direction) => {
    for (let row = cursor.row + direction; rows[row]; row += direction) {
      if (rows[row].start.length) {
        move(row, nearest(rows[row], rows[cursor.row].start[cursor.at]));
        strips[row].scrollIntoView({ block: "nearest" });
        return;
      }
    }
  };
  const first = rows.findIndex((row) => row.start.length);
  holder.addEventListener("keydown", (event) => {
    if (first < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = cursor && rows[cursor.row];
    const keys = {
      ArrowRight: () => move(cursor.row, Math.min(cursor.at + 1, row.start.length - 1)),
      ArrowLeft: () => move(cursor.row, Math.max(cursor.at - 1, 0)),
      ArrowDown: () => beside(1),
      ArrowUp: () => beside(-1),
      Home: () => move(cursor.row, 0),
      End: () => move(cursor.row, row.start.length - 1),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    if (cursor) keys[event.key]();
    else move(first, 0);
  });
  holder.addEventListener("pointermove", (event) => {
    const number = strips.indexOf(event.target);
    if (number < 0 || !rows[number].start.length) return;
    // The pointer covers one pixel, which may be several ticks.
    const pixel = ticks / strips[number].clientWidth;
    const tick = event.offsetX * pixel;
    const row = rows[number];
    const at = nearest(row, tick + pixel);
    if (row.start[at] < tick + pixel && tick < row.start[at] + row.ticks[at]) move(number, at);
  });
  new ResizeObserver(drawAll).observe(holder);
  redraws.push(drawAll);
  drawAll();
};
if (scene?.steady) startTimeline("steady", scene.steady, true);
if (scene?.timeline) startTimeline("timeline", scene.timeline, false);
