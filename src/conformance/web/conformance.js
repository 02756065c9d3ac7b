// Runs the recordings of data.js on this browser's WebGPU and judges what comes out as `wgattn conformance` does: an output
// passes when its largest error, relative to the largest true value, is at most what the kernel's tolerance allows.
//
// A test is { kernel, case, variant, buffers, textures, commands, outputs }:
//   buffers   [bytes, usages, contents, label]; contents are [blob, bytes] or null for zeros
//   textures  [width, height, format, usages, contents, label]
//   commands  ["copy", from, offset, to, bytes], ["rows", from, offset, bytesPerRow, to, row, width, height], and
//             ["run", shader, bindings, groups, indirect]; bindings are [binding, buffer, offset, bytes] or [binding, texture]
//   outputs   { port, type, count, truth: [kind, contents], naive, allowed, buffer, offset or texture }; kind is f32, f64, or f40
//             for the upper five bytes of f64
"use strict";

/** Tests whose pipelines are asked for ahead, so that the browser compiles several at a time. */
const AHEAD = 12;
/** Times that a lost device is asked for again. */
const MOST_LOSSES = 3;
/** Seconds after which a test is given up. */
const PATIENCE = 120;

const USAGES = {
  storage: "STORAGE", uniform: "UNIFORM", indirect: "INDIRECT", copy_src: "COPY_SRC", copy_dst: "COPY_DST",
  texture_binding: "TEXTURE_BINDING", storage_binding: "STORAGE_BINDING",
};
const flags = (words, names) => words.split(" ").filter(Boolean).reduce((sum, word) => sum | names[USAGES[word]], 0);

// ---- Data --------------------------------------------------------------------------------------------------------------

const decoded = new Map();

/** The bytes of `[blob, bytes]`; null for none. */
function bytesOf(contents) {
  if (contents === null) return null;
  const [number, length] = contents;
  if (!decoded.has(number)) {
    const text = atob(SUITE.blobs[number]);
    decoded.set(number, Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
  }
  return decoded.get(number).slice(0, length);
}

function truthOf([kind, contents]) {
  const bytes = bytesOf(contents);
  if (bytes === null) return [];
  if (kind === "f32") return Float64Array.from(new Float32Array(bytes.buffer));
  if (kind === "f64") return new Float64Array(bytes.buffer);
  const whole = new Uint8Array((bytes.length / 5) * 8);
  for (let i = 0; i < bytes.length / 5; i++) whole.set(bytes.subarray(5 * i, 5 * i + 5), 8 * i + 3);
  return new Float64Array(whole.buffer);
}

/** Numbers of an output as they lie in a device's memory. */
function numbersOf(type, count, buffer) {
  switch (type) {
    case "F32": return new Float32Array(buffer, 0, count);
    case "U32": return new Uint32Array(buffer, 0, count);
    case "I32": return new Int32Array(buffer, 0, count);
    default: return new Uint8Array(buffer, 0, count);
  }
}

// ---- Judging -----------------------------------------------------------------------------------------------------------

/** The largest deviation relative to the largest true value (absolute where that is 0); infinite where one is no number. */
function judge(output, got) {
  const truth = truthOf(output.truth);
  let scale = 0;
  for (const value of truth) scale = Math.max(scale, Math.abs(value));
  if (!(scale > 0 && Number.isFinite(scale))) scale = 1;
  const worst = { error: 0, index: 0, got: 0, expected: 0 };
  for (let index = 0; index < truth.length; index++) {
    // `Object.is` holds of two NaNs; `===` of 0 and −0.
    const same = got[index] === truth[index] || Object.is(got[index], truth[index]);
    let error = same ? 0 : Math.abs(got[index] - truth[index]) / scale;
    if (Number.isNaN(error)) error = Infinity;
    if (error > worst.error) Object.assign(worst, { error, index, got: got[index], expected: truth[index] });
  }
  const share = worst.error === 0 ? 0 : worst.error / output.allowed;
  return { port: output.port, ...worst, allowed: output.allowed, naive: output.naive, share, passes: worst.error <= output.allowed };
}

function complaint(judged) {
  return `${judged.port}: error ${judged.error.toExponential(3)} > ${judged.allowed.toExponential(3)}; `
    + `element ${judged.index}: got ${judged.got}, expected ${judged.expected}`;
}

// ---- The device --------------------------------------------------------------------------------------------------------

class Gpu {
  static async open() {
    if (!navigator.gpu) {
      const insecure = window.isSecureContext ? "" : " here, because the page is not served securely (use https, localhost or a file)";
      throw new Error(`This browser has no WebGPU${insecure}. A current Chrome, Edge, Firefox or Safari has it on most systems.`);
    }
    const adapter = await navigator.gpu.requestAdapter();
    if (!adapter) throw new Error("This browser has WebGPU but finds no adapter: its GPU driver may be too old or blocked.");
    const gpu = new Gpu();
    gpu.info = adapter.info ?? {};
    gpu.device = await adapter.requestDevice();
    gpu.lost = null;
    gpu.pipelines = new Map();
    gpu.device.lost.then((info) => { gpu.lost = info.message || info.reason || "unknown"; });
    return gpu;
  }

  /** What the report calls the device. */
  about() {
    const { vendor, architecture, device, description, isFallbackAdapter } = this.info;
    const name = description || [vendor, architecture, device].filter(Boolean).join(" ") || "unnamed adapter";
    const software = isFallbackAdapter || /swiftshader|llvmpipe|basic render/i.test([vendor, architecture, name].join(" "));
    // Browsers tell neither how many adapters there are nor where they sit.
    return { name, backend: "webgpu", type: software ? "software" : "gpu", driver: navigator.userAgent, index: null, pci: null, bus: null };
  }

  /** The pipeline of a shader with its layout, made once. */
  pipeline(number) {
    if (!this.pipelines.has(number)) {
      const made = this.makePipeline(SUITE.shaders[number]);
      // Whoever waits for it gets the error; until then nobody has to.
      made.catch(() => {});
      this.pipelines.set(number, made);
    }
    return this.pipelines.get(number);
  }

  async makePipeline({ name, entry, bindings, pieces }) {
    const kinds = {
      "uniform": { buffer: { type: "uniform" } },
      "storage": { buffer: { type: "storage" } },
      "read-only-storage": { buffer: { type: "read-only-storage" } },
      "texture": { texture: { sampleType: "unfilterable-float" } },
      "storage-texture": { storageTexture: { access: "write-only", format: "rgba8unorm" } },
    };
    const entries = bindings.map(([binding, kind]) => ({ binding, visibility: GPUShaderStage.COMPUTE, ...kinds[kind] }));
    const layout = this.device.createBindGroupLayout({ label: name, entries });
    const code = pieces.map((piece) => SUITE.pieces[piece]).join("");
    const module = this.device.createShaderModule({ label: name, code });
    const { messages } = await module.getCompilationInfo();
    const wrong = messages.find(({ type }) => type === "error");
    if (wrong) throw new Error(`${name}:${wrong.lineNum}:${wrong.linePos}: ${wrong.message}`);
    const pipeline = await this.device.createComputePipelineAsync({
      label: name,
      layout: this.device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: entry },
    });
    return { pipeline, layout, label: name };
  }

  /** Runs a test and returns its outputs, judged. */
  async run(test) {
    const pipelines = new Map();
    for (const [what, shader] of test.commands) {
      if (what === "run" && !pipelines.has(shader)) pipelines.set(shader, await this.pipeline(shader));
    }
    const device = this.device;
    device.pushErrorScope("out-of-memory");
    device.pushErrorScope("validation");
    const made = [];
    const keep = (object) => (made.push(object), object);
    const buffers = test.buffers.map(([size, usage, contents, label]) => {
      const buffer = keep(device.createBuffer({ label, size, usage: flags(usage, GPUBufferUsage) | GPUBufferUsage.COPY_DST }));
      const bytes = bytesOf(contents);
      if (bytes) device.queue.writeBuffer(buffer, 0, padded(bytes));
      return buffer;
    });
    const textures = test.textures.map(([width, height, format, usage, contents, label]) => {
      const texture = keep(device.createTexture({ label, size: [width, height], format, usage: flags(usage, GPUTextureUsage) }));
      const bytes = bytesOf(contents);
      if (bytes) device.queue.writeTexture({ texture }, bytes, { bytesPerRow: bytes.length / height }, [width, height]);
      return texture;
    });
    const encoder = device.createCommandEncoder();
    this.encode(encoder, test.commands, pipelines, buffers, textures);
    const copies = test.outputs.map((output) => {
      const copy = this.copyOut(encoder, output, buffers, textures);
      keep(copy.buffer);
      return copy;
    });
    device.queue.submit([encoder.finish()]);
    const errors = [device.popErrorScope(), device.popErrorScope()];
    try {
      for (const error of await Promise.all(errors)) if (error) throw new Error(error.message);
      return await Promise.all(copies.map((copy) => copy.judged()));
    } finally {
      made.forEach((object) => object.destroy());
    }
  }

  encode(encoder, commands, pipelines, buffers, textures) {
    let pass = null;
    const end = () => { pass?.end(); pass = null; };
    for (const [what, ...rest] of commands) {
      if (what === "copy") {
        end();
        const [from, offset, to, bytes] = rest;
        encoder.copyBufferToBuffer(buffers[from], offset, buffers[to], 0, bytes);
      } else if (what === "rows") {
        end();
        const [from, offset, bytesPerRow, to, row, width, height] = rest;
        const layout = height > 1 ? { offset, bytesPerRow } : { offset };
        encoder.copyBufferToTexture({ buffer: buffers[from], ...layout }, { texture: textures[to], origin: [0, row] }, [width, height]);
      } else {
        const [shader, bindings, groups, indirect] = rest;
        const { pipeline, layout, label } = pipelines.get(shader);
        const entries = bindings.map(([binding, index, offset, size]) => ({
          binding,
          resource: size === undefined ? textures[index].createView() : { buffer: buffers[index], offset, size },
        }));
        pass ??= encoder.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, this.device.createBindGroup({ label, layout, entries }));
        if (indirect) pass.dispatchWorkgroupsIndirect(buffers[indirect[0]], indirect[1]);
        else pass.dispatchWorkgroups(...groups);
      }
    }
    end();
  }

  /** Encodes the copy of an output into a buffer that can be read. */
  copyOut(encoder, output, buffers, textures) {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const elementBytes = output.type === "U8" || output.type === "Rgba8" ? 1 : 4;
    const bytes = Math.max(4, Math.ceil((output.count * elementBytes) / 4) * 4);
    if (output.texture === undefined) {
      const buffer = this.device.createBuffer({ size: bytes, usage });
      encoder.copyBufferToBuffer(buffers[output.buffer], output.offset, buffer, 0, bytes);
      const judged = async () => {
        await buffer.mapAsync(GPUMapMode.READ);
        return judge(output, numbersOf(output.type, output.count, buffer.getMappedRange()));
      };
      return { buffer, judged };
    }
    const texture = textures[output.texture];
    const [row, pitch] = [texture.width * 4, Math.ceil((texture.width * 4) / 256) * 256];
    const buffer = this.device.createBuffer({ size: pitch * texture.height, usage });
    encoder.copyTextureToBuffer({ texture }, { buffer, bytesPerRow: pitch }, [texture.width, texture.height]);
    const judged = async () => {
      await buffer.mapAsync(GPUMapMode.READ);
      const [from, to] = [new Uint8Array(buffer.getMappedRange()), new Uint8Array(row * texture.height)];
      for (let y = 0; y < texture.height; y++) to.set(from.subarray(y * pitch, y * pitch + row), y * row);
      return judge(output, to);
    };
    return { buffer, judged };
  }
}

/** Bytes in a multiple of four, as copies want. */
function padded(bytes) {
  if (bytes.length % 4 === 0) return bytes;
  const whole = new Uint8Array(Math.ceil(bytes.length / 4) * 4);
  whole.set(bytes);
  return whole;
}

function within(seconds, promise) {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// ---- The suite ---------------------------------------------------------------------------------------------------------

/** The machine, as far as a browser tells. */
function system() {
  const { userAgentData, platform, hardwareConcurrency, deviceMemory } = navigator;
  const gigabytes = deviceMemory === undefined ? null : deviceMemory * 2 ** 30;
  return { os: userAgentData?.platform || platform || "unknown", arch: null, cpu: null, cores: hardwareConcurrency ?? null, memory_bytes: gigabytes };
}

/** Runs all tests whose kernel's name holds `filter`; `show` sees the report as it grows. */
async function runSuite(filter, show) {
  const tests = SUITE.tests.filter((test) => test.kernel.includes(filter));
  const began = performance.now();
  const result = { device: null, passed: 0, failed: 0, ignored: 0, seconds: 0, rows: [] };
  const report = {
    schema: "wgattn-conformance", schema_version: SUITE.schema_version, wgattn: SUITE.wgattn,
    date: new Date().toISOString().replace(/\.\d+Z$/, "Z"), complete: false, left_out: [],
    filter: filter || SUITE.filter, system: system(), devices: [],
  };
  const add = (row) => {
    result.rows.push(row);
    result[row.outcome]++;
    result.seconds = (performance.now() - began) / 1000;
    show(report, result.rows.length, row);
  };
  let gpu = null;
  let losses = 0;
  try {
    gpu = await Gpu.open();
    result.device = gpu.about();
    report.devices.push(result);
  } catch (error) {
    report.left_out.push({ asked: "WebGPU", reason: error.message });
    return report;
  }
  for (const [index, test] of tests.entries()) {
    const row = { kernel: test.kernel, case: test.case, variant: test.variant, outcome: "ignored", why: null, seconds: 0, outputs: [] };
    if (gpu === null) {
      add({ ...row, why: "not run: the device was lost before and did not come back" });
      continue;
    }
    for (const { commands } of tests.slice(index, index + AHEAD)) {
      for (const [what, shader] of commands) if (what === "run") gpu.pipeline(shader);
    }
    const since = performance.now();
    try {
      const judged = await within(PATIENCE, gpu.run(test));
      if (gpu.lost) throw new Error(`the device was lost (${gpu.lost})`);
      const wrong = judged.filter(({ passes }) => !passes);
      row.outcome = wrong.length === 0 ? "passed" : "failed";
      row.why = wrong.length === 0 ? null : wrong.map(complaint).join("; ");
      // Infinity is no JSON; a null stands for what is not finite, as in the program's own.
      const finite = (value) => (Number.isFinite(value) ? value : null);
      row.outputs = judged.map(({ port, error, allowed, naive, share, index, got, expected }) => ({
        port, error: finite(error), allowed, naive, share: finite(share), index, got: finite(got), expected: finite(expected),
      }));
    } catch (error) {
      row.outcome = "failed";
      // The news of a loss comes a little after the failure that it causes.
      await new Promise((resolve) => setTimeout(resolve, 10));
      row.why = gpu.lost ? `the device was lost (${gpu.lost})` : error.message;
      if (gpu.lost) gpu = ++losses <= MOST_LOSSES ? await Gpu.open().catch(() => null) : null;
    }
    row.seconds = (performance.now() - since) / 1000;
    add(row);
  }
  for (const { kernel, case: name, why } of SUITE.left_out.filter(({ kernel }) => kernel.includes(filter))) {
    add({ kernel, case: name, variant: null, outcome: "ignored", why, seconds: 0, outputs: [] });
  }
  report.complete = true;
  return report;
}

// ---- The page ----------------------------------------------------------------------------------------------------------

const element = (id) => document.getElementById(id);
const rowName = ({ kernel, variant, case: name }) => `${kernel}${variant ? `/${variant}` : ""} · ${name}`;

function cells(values, tag = "td") {
  const line = document.createElement("tr");
  for (const value of values) {
    const cell = line.appendChild(document.createElement(tag));
    cell.textContent = value;
  }
  return line;
}

/** The largest error of rows in parts of what is allowed. */
function worstOf(rows) {
  const outputs = rows.flatMap((row) => row.outputs.map((output) => ({ row, output })));
  if (outputs.length === 0) return "–";
  const share = ({ output }) => (output.error === 0 ? 0 : output.share ?? Infinity);
  const worst = outputs.reduce((a, b) => (share(b) > share(a) ? b : a));
  if (share(worst) === 0) return "none";
  const error = worst.output.error === null ? "not finite" : worst.output.error.toExponential(1);
  if (share(worst) === Infinity) return `${error}, and none is allowed (${rowName(worst.row)})`;
  return `${share(worst).toFixed(2)} of what is allowed (${error}, ${rowName(worst.row)})`;
}

class View {
  constructor(total) {
    this.total = total;
    this.kernels = new Map();
    for (const id of ["kernels", "all", "failed", "ignored"]) element(id).replaceChildren();
    for (const id of ["failures", "ignorances"]) element(id).hidden = true;
  }

  show(report, done, row) {
    const [result] = report.devices;
    element("adapter").textContent = [result.device.name, result.device.driver].filter(Boolean).join(" · ");
    element("bar").style.width = `${(100 * done) / Math.max(1, this.total)}%`;
    element("now").textContent = `${done} of ${this.total}: ${rowName(row)}`;
    if (!this.kernels.has(row.kernel)) this.kernels.set(row.kernel, { rows: [], line: element("kernels").appendChild(document.createElement("tr")) });
    const kernel = this.kernels.get(row.kernel);
    kernel.rows.push(row);
    const line = this.line(row.kernel, kernel.rows);
    kernel.line.replaceWith(line);
    kernel.line = line;
    if (row.outcome !== "passed") this.tell(row);
  }

  line(name, rows) {
    const count = (outcome) => rows.filter((row) => row.outcome === outcome).length;
    const line = cells([name, rows.length, count("passed"), count("failed"), count("ignored"), worstOf(rows)]);
    if (count("failed") > 0) line.children[3].className = "bad";
    return line;
  }

  tell(row) {
    const failed = row.outcome === "failed";
    element(failed ? "failures" : "ignorances").hidden = false;
    const item = element(failed ? "failed" : "ignored").appendChild(document.createElement("li"));
    item.appendChild(document.createElement("code")).textContent = rowName(row);
    item.append(`: ${row.why}`);
  }

  end(report) {
    const [result] = report.devices;
    const [missing] = report.left_out;
    element("now").textContent = missing ? "" : `${result.seconds.toFixed(1)} s, compiling included.`;
    const verdict = element("verdict");
    const bad = missing !== undefined || result.failed > 0;
    verdict.className = bad ? "bad" : "good";
    verdict.textContent = missing?.reason ?? (bad
      ? `${result.failed} of ${result.rows.length} checks failed.`
      : `All ${result.passed} checks that ran passed${result.ignored ? `; ${result.ignored} are listed as ignored` : ""}.`);
    if (!missing) element("all").replaceChildren(this.line("All", result.rows));
  }
}

let latest = null;

async function start() {
  const filter = element("filter").value.trim();
  const holds = ({ kernel }) => kernel.includes(filter);
  const view = new View(SUITE.tests.filter(holds).length + SUITE.left_out.filter(holds).length);
  for (const id of ["again", "save"]) element(id).disabled = true;
  element("verdict").className = "";
  element("verdict").textContent = "Running …";
  latest = null;
  const report = await runSuite(filter, (report, done, row) => view.show(report, done, row));
  view.end(report);
  for (const id of ["again", "save"]) element(id).disabled = false;
  latest = report;
}

function save() {
  const url = URL.createObjectURL(new Blob([`${JSON.stringify(latest, null, 2)}\n`], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = "wgattn-conformance.json";
  link.click();
  // The download has begun; browsers read the blob a little later.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

element("version").textContent = SUITE.wgattn.version;
element("again").addEventListener("click", start);
element("save").addEventListener("click", save);
element("filter").addEventListener("keydown", (event) => { if (event.key === "Enter" && !element("again").disabled) start(); });
start();
