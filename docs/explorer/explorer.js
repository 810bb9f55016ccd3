// Sliders over stored solutions: no server, nothing fetched. The numbers are in data.js.
(() => {
  const stored = window.WIDEFIELD_EXPLORER;
  const by = (id) => document.getElementById("wf-" + id);
  const WIDTH = 260, HEIGHT = 170, LEFT = 42, BOTTOM = 28, TOP = 8;
  const CURVES = { loss: "log", entk_alignment: "linear", gradient_cosine: "linear" };
  const KERNELS = ["phi", "g_tilde"];

  function make(kind, attributes, parent, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  function settings() {
    const rule = by("rule").value;
    return {
      rule,
      rho: rule === "fa" ? stored.rho[by("rho").value] : "",
      richness: stored.richness[by("richness").value],
      time: Number(by("time").value),
    };
  }

  const find = (rule, rho, richness) => stored.runs[[rule, rho, richness].join("|")];

  // The range of a curve over all richness values and rules, so that a slider moves curves and not axes.
  function range(name, scale) {
    const all = Object.values(stored.runs).flatMap((run) => run[name]);
    if (scale === "linear") return [Math.min(0, ...all), Math.max(1, ...all)];
    return [Math.min(...all) / 1.3, Math.max(...all) * 1.3];
  }

  function ticks(low, high, scale) {
    if (scale === "linear") return [0, 0.5, 1].filter((value) => value >= low && value <= high);
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high)), found = [];
    for (let power = last; power >= first; power -= Math.ceil((last - first) / 4)) found.push(Number(`1e${power}`));
    return found;
  }

  function drawCurve(name, runs) {
    const scale = CURVES[name], [low, high] = range(name, scale), svg = by(name);
    const end = stored.time[stored.time.length - 1];
    const unit = scale === "log" ? Math.log : (value) => value;
    const x = (time) => LEFT + (time / end) * (WIDTH - LEFT - 8);
    const y = (value) => {
      const kept = Math.min(Math.max(value, low), high);
      return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (unit(kept) - unit(low)) / (unit(high) - unit(low)));
    };
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    Object.assign(svg.dataset, { low, high, top: TOP, bottom: HEIGHT - BOTTOM });
    make("path", { class: "wf-axis", d: `M${LEFT},${TOP}V${HEIGHT - BOTTOM}H${WIDTH - 8}` }, svg);
    for (const value of ticks(low, high, scale)) {
      make("path", { class: "wf-axis", d: `M${LEFT - 4},${y(value)}H${LEFT}` }, svg);
      make("text", { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" }, svg, value && value < 0.01 ? value.toExponential() : String(value));
    }
    for (const time of [0, end / 2, end]) {
      make("text", { x: x(time), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" }, svg, String(time));
    }
    make("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 2, "text-anchor": "middle" }, svg, "training time");
    for (const [kind, run] of Object.entries(runs)) {
      const group = make("g", { class: "wf-" + kind }, svg);
      const edge = (sign) => run[name].map((value, i) => [x(stored.time[i]), y(value + sign * 2 * run[name + "_se"][i])]);
      make("polygon", { points: [...edge(1), ...edge(-1).reverse()].map((p) => p.map((v) => v.toFixed(2)).join()).join(" ") }, group);
      const line = run[name].map((value, i) => `${x(stored.time[i]).toFixed(3)},${y(value).toFixed(3)}`);
      make("path", { d: "M" + line.join("L") }, group);
    }
  }

  // Red is positive, blue negative, white 0, on one scale for all times.
  function colour(share) {
    const [r, g, b] = share > 0 ? [178, 24, 43] : [33, 102, 172], weight = Math.min(1, Math.abs(share));
    const mix = (channel) => Math.round(255 + (channel - 255) * weight);
    return `rgb(${mix(r)},${mix(g)},${mix(b)})`;
  }

  function drawKernel(name, run, time) {
    const svg = by(name), values = run[name][time], size = Math.sqrt(values.length);
    const limit = Math.max(...run[name].flat().map(Math.abs));
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
    values.forEach((value, i) => {
      const cell = { x: i % size, y: Math.floor(i / size), width: 1.02, height: 1.02, fill: colour(value / limit) };
      make("title", {}, make("rect", { ...cell, "data-value": value }, svg), String(value));
    });
    by(name + "-scale").textContent = `white is 0, the darkest ${limit}`;
  }

  function show() {
    const { rule, rho, richness, time } = settings(), run = find(rule, rho, richness);
    by("rho").disabled = rule !== "fa";
    by("rho-value").textContent = rule === "fa" ? rho : "(feedback alignment only)";
    by("richness-value").textContent = richness;
    by("time-value").textContent = stored.kernel_time[time];
    const runs = rule === "gd" ? { rule: run } : { gd: find("gd", "", richness), rule: run };
    for (const name of Object.keys(CURVES)) drawCurve(name, runs);
    for (const name of KERNELS) drawKernel(name, run, time);
    const last = (name) => `${run[name].at(-1)} ± ${run[name + "_se"].at(-1)}`;
    by("summary").textContent =
      `At the end: loss ${last("loss")}, alignment of K with the targets ${last("entk_alignment")}, ` +
      `cosine of gradient and pseudo-gradient ${last("gradient_cosine")}.`;
  }

  by("rho").max = stored.rho.length - 1;
  by("richness").max = stored.richness.length - 1;
  by("time").max = by("time").value = stored.kernel_time.length - 1;
  for (const id of ["rule", "rho", "richness", "time"]) by(id).addEventListener("input", show);
  show();
})();
