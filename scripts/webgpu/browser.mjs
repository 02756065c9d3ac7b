// The browser that the scripts here drive: Chromium with WebGPU on SwiftShader, by playwright-core.
//
// CHROMIUM names the browser (default: the first of chromium, chromium-browser, google-chrome in PATH).

import { accessSync, constants as fsConstants } from "node:fs";
import { delimiter, join } from "node:path";

const FLAGS = [
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
  "--enable-features=Vulkan,WebGPU",
  "--no-sandbox",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--disable-quic",
];

/// A failure of the set-up, not of a shader: exit code 2.
export class SetupError extends Error {}

function chromiumPath() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    for (const folder of (process.env.PATH ?? "").split(delimiter)) {
      try {
        accessSync(join(folder, name), fsConstants.X_OK);
        return join(folder, name);
      } catch {
        // Not in this folder.
      }
    }
  }
  throw new SetupError("no chromium in PATH; install it or set CHROMIUM");
}

/// Starts a browser without a window, with WebGPU on SwiftShader.
export async function launch() {
  const executablePath = chromiumPath();
  const playwright = await import("playwright-core").catch(() => {
    throw new SetupError("playwright-core is not installed; run `npm ci` in scripts/webgpu");
  });
  // --disable-gpu would take the GPU process, and WebGPU with it.
  return playwright.chromium
    .launch({ executablePath, headless: true, args: FLAGS, ignoreDefaultArgs: ["--disable-gpu"], timeout: 60_000 })
    .catch((error) => {
      throw new SetupError(`cannot start ${executablePath}: ${error.message.split("\n")[0]}`);
    });
}

/// A promise's value, or an error after so many seconds.
export const within = (seconds, promise) => {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};
