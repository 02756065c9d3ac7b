// Opens a page of `wgattn conformance --web` from its file, as its users do, waits until it is done, saves its results with the
// page's own button, and prints its verdict and what it says on the console.
//
//   node page.mjs DIR/index.html RESULTS.json [SCREENSHOT.png]
//
// Exit code: 0 the page is done (whatever it found), 2 no browser, or the page did not come to an end.

import { pathToFileURL } from "node:url";
import { SetupError, launch, within } from "./browser.mjs";

const PATIENCE_SECONDS = 400;

async function main() {
  const [page, results, screenshot, ...rest] = process.argv.slice(2);
  if (!page || !results || rest.length > 0) throw new SetupError("usage: node page.mjs DIR/index.html RESULTS.json [SCREENSHOT.png]");
  const browser = await launch();
  try {
    const tab = await browser.newPage({ viewport: { width: 1000, height: 900 } });
    tab.on("console", (message) => console.log(`console: ${message.text()}`));
    tab.on("pageerror", (error) => console.log(`page error: ${error.message}`));
    await tab.goto(pathToFileURL(page).href);
    await tab.waitForFunction(() => !document.getElementById("save").disabled, null, { timeout: PATIENCE_SECONDS * 1000, polling: 200 });
    if (screenshot) await tab.screenshot({ path: screenshot });
    const download = tab.waitForEvent("download");
    await tab.click("#save");
    await (await download).saveAs(results);
    console.log(await tab.textContent("#verdict"));
    return 0;
  } finally {
    // A hung browser does not close by itself.
    await within(10, browser.close()).catch(() => {});
  }
}

main().then(
  (code) => (process.exitCode = code),
  (error) => {
    console.log(`error: ${error.message}`);
    process.exitCode = 2;
  },
);
