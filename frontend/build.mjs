// Bundles the charts into backend/evenhand/web/static/charts.js; with --check it only tells whether the committed file is current.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";

const target = new URL("../backend/evenhand/web/static/charts.js", import.meta.url);
const licences = new URL("../backend/evenhand/web/static/charts.LICENSES.txt", import.meta.url);

const result = await build({
  entryPoints: [new URL("src/charts.js", import.meta.url).pathname],
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome123", "firefox120", "safari17.5"],
  legalComments: "none",
  banner: { js: "/* Built by frontend/build.mjs from frontend/src; licences in charts.LICENSES.txt. */" },
  metafile: true,
  write: false,
});

const packages = [...new Set(Object.keys(result.metafile.inputs)
  .map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1])
  .filter(Boolean))].sort();
const texts = [];
for (const name of packages) {
  const folder = new URL(`node_modules/${name}/`, import.meta.url);
  const { version, license } = JSON.parse(await readFile(new URL("package.json", folder), "utf8"));
  const text = await readFile(new URL("LICENSE", folder), "utf8").catch(() => readFile(new URL("LICENSE.md", folder), "utf8"));
  texts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
}
const wanted = new Map([[target, result.outputFiles[0].text], [licences, texts.join("\n----\n\n")]]);

for (const [file, text] of wanted) {
  if (process.argv.includes("--check")) {
    if ((await readFile(file, "utf8").catch(() => "")) !== text) {
      console.error(`${file.pathname} is out of date; run npm run build`);
      process.exitCode = 1;
    }
  } else {
    await writeFile(file, text);
    console.log(`${file.pathname}: ${(text.length / 1024).toFixed(0)} KB`);
  }
}
