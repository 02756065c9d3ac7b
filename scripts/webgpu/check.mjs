// Compiles WGSL with a browser's WebGPU (Tint), which checks what naga does not: uniform control flow
// around barriers, derivatives and subgroup operations, and the default limits of the web (workgroup memory apart).
//
//   node check.mjs shaders.json
//
// shaders.json: [{ "name", "wgsl", "entry"?, "subgroups"?, "constants"? }, …]
//   entry      entry point of a compute pipeline; without it the module's only one
//   subgroups  true: the module uses subgroup built-ins (`enable subgroups;` is put in front)
//   constants  values for `override` declarations, { "name": number }
//
// One block per failing shader, then one line of JSON:
//   { "ok", "shaders", "failed": [name…], "warnings", "adapter", "features", "browser", "seconds" }
// Exit code: 0 all compile, 1 some do not, 2 no browser, no adapter, or unreadable input.
// CHROMIUM names the browser (default: the first of chromium, chromium-browser, google-chrome in PATH).

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { SetupError, launch, within } from "./browser.mjs";

const CHUNK = 16;
const CHUNK_SECONDS = 90;
const WANTED_FEATURES = ["subgroups", "timestamp-query", "shader-f16"];
const SUBGROUP_USE = /\bsubgroup[A-Z]\w*\s*\(|\bquad(?:Broadcast|Swap[XYD])\w*\s*\(|\bsubgroup_(?:size|invocation_id|id)\b/;

function readShaders(path) {
  let shaders;
  try {
    shaders = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new SetupError(`${path}: ${error.message}`);
  }
  if (!Array.isArray(shaders) || shaders.length === 0) throw new SetupError(`${path}: wants a list of shaders, not empty`);
  const names = new Set();
  shaders.forEach((shader, index) => {
    if (typeof shader?.name !== "string" || typeof shader?.wgsl !== "string") {
      throw new SetupError(`${path}: shader ${index} wants "name" and "wgsl"`);
    }
    if (names.has(shader.name)) throw new SetupError(`${path}: two shaders are named "${shader.name}"`);
    names.add(shader.name);
  });
  return shaders.map(withEnable);
}

/// naga 30 does not parse `enable subgroups;` and Tint wants it. It goes on the first line, so that line numbers stay.
function withEnable(shader) {
  const code = shader.wgsl.replace(/\/\/.*$/gm, "");
  const uses = shader.subgroups === true || SUBGROUP_USE.test(code);
  if (!uses || /\benable\s+[^;]*\bsubgroups\b/.test(code)) return { ...shader, shift: 0 };
  const prefix = "enable subgroups; ";
  return { ...shader, wgsl: prefix + shader.wgsl, shift: prefix.length };
}

// ---- In the page -------------------------------------------------------------------------------------------------

/// Makes `window.device`; returns what it is, or the reason why there is none.
async function openDevice(wanted) {
  if (!navigator.gpu) return { error: "this browser has no navigator.gpu" };
  const adapter = await navigator.gpu.requestAdapter();
  if (!adapter) return { error: "requestAdapter() found nothing" };
  const features = wanted.filter((name) => adapter.features.has(name));
  // Variants for devices with more workgroup memory than the default exist; which fit where is not checked here.
  const requiredLimits = { maxComputeWorkgroupStorageSize: adapter.limits.maxComputeWorkgroupStorageSize };
  window.device = await adapter.requestDevice({ requiredFeatures: features, requiredLimits });
  window.lost = null;
  window.device.lost.then((info) => (window.lost = info.message || info.reason));
  const { vendor, architecture, device, description } = adapter.info;
  return { features, adapter: [vendor, architecture, device, description].filter(Boolean).join(" ") };
}

/// Compiles each shader of the chunk; returns `[{ name, messages: [{ kind, line, column, text }] }]`.
async function compileChunk(shaders) {
  const device = window.device;
  const compile = async ({ name, wgsl, entry, constants, shift }) => {
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ label: name, code: wgsl });
    const scope = device.popErrorScope();
    const info = await module.getCompilationInfo();
    const messages = info.messages.map(({ type, lineNum, linePos, message }) => ({
      kind: type,
      line: lineNum,
      column: lineNum === 1 ? Math.max(linePos - shift, 1) : linePos,
      text: message,
    }));
    const scopeError = await scope;
    if (messages.some((message) => message.kind === "error")) return { name, messages };
    if (scopeError) {
      return { name, messages: [...messages, { kind: "error", line: 0, column: 0, text: scopeError.message }] };
    }
    try {
      await device.createComputePipelineAsync({ label: name, layout: "auto", compute: { module, entryPoint: entry, constants } });
    } catch (error) {
      messages.push({ kind: "error", line: 0, column: 0, text: `pipeline: ${error.message}` });
    }
    return { name, messages };
  };
  const results = await Promise.all(shaders.map(compile));
  // A lost device fails no promise: pipelines are made "successfully". One more round trip lets `lost` resolve.
  await device.queue.onSubmittedWorkDone();
  await new Promise((resolve) => setTimeout(resolve, 10));
  return { results, lost: window.lost };
}

// ---- Here --------------------------------------------------------------------------------------------------------

async function serveBlankPage() {
  // `navigator.gpu` exists only in a secure context; http://localhost is one, about:blank is not.
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/html" });
    response.end("<!doctype html><meta charset=utf-8><title>WebGPU check</title>");
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return { server, url: `http://localhost:${server.address().port}/` };
}

/// A browser page with a device, opened again after a crash.
class Gpu {
  constructor(url) {
    this.url = url;
  }

  async open() {
    await this.close();
    this.browser = await launch();
    this.page = await this.browser.newPage();
    await this.page.goto(this.url);
    const about = await within(60, this.page.evaluate(openDevice, WANTED_FEATURES)).catch((error) => ({ error: error.message }));
    if (about.error) throw new SetupError(`no WebGPU device: ${about.error.split("\n")[0]}`);
    this.about = { ...about, browser: this.browser.version() };
  }

  async compile(shaders) {
    const { results, lost } = await within(CHUNK_SECONDS, this.page.evaluate(compileChunk, shaders));
    if (lost) throw new Error(`device lost: ${lost}`);
    return results;
  }

  async close() {
    // A hung browser does not close by itself, and must not hold up the report.
    if (this.browser) await within(10, this.browser.close()).catch(() => {});
    this.browser = undefined;
  }
}

/// Results in the order of `shaders`. A chunk that takes the browser down is repeated shader by shader, to name the guilty.
async function compileAll(gpu, shaders) {
  const results = [];
  for (let start = 0; start < shaders.length; start += CHUNK) {
    const chunk = shaders.slice(start, start + CHUNK);
    try {
      results.push(...(await gpu.compile(chunk)));
    } catch {
      await gpu.open();
      for (const shader of chunk) {
        try {
          results.push(...(await gpu.compile([shader])));
        } catch (error) {
          const text = error.message.split("\n")[0];
          results.push({ name: shader.name, messages: [{ kind: "error", line: 0, column: 0, text }] });
          await gpu.open();
        }
      }
    }
  }
  return results;
}

function print(results) {
  for (const { name, messages } of results) {
    for (const { kind, line, column, text } of messages) {
      const place = line > 0 ? `${name}:${line}:${column}` : name;
      console.log(`${place}: ${kind}: ${text.trim().replace(/\n/g, "\n    ")}`);
    }
  }
}

async function main() {
  const [path, ...rest] = process.argv.slice(2);
  if (!path || rest.length > 0) throw new SetupError("usage: node check.mjs shaders.json");
  const began = performance.now();
  const shaders = readShaders(path);
  const { server, url } = await serveBlankPage();
  const gpu = new Gpu(url);
  try {
    await gpu.open();
    const results = await compileAll(gpu, shaders);
    print(results);
    const count = (kind) => results.flatMap(({ messages }) => messages).filter((message) => message.kind === kind).length;
    const failed = results.filter(({ messages }) => messages.some(({ kind }) => kind === "error")).map(({ name }) => name);
    const seconds = Number(((performance.now() - began) / 1000).toFixed(1));
    const ok = failed.length === 0;
    console.log(JSON.stringify({ ok, shaders: results.length, failed, warnings: count("warning"), ...gpu.about, seconds }));
    return ok ? 0 : 1;
  } finally {
    await gpu.close();
    server.closeAllConnections();
    server.close();
  }
}

main().then(
  (code) => (process.exitCode = code),
  (error) => {
    console.log(`error: ${error.message}`);
    console.log(JSON.stringify({ ok: false, error: error.message }));
    process.exitCode = 2;
  },
);
