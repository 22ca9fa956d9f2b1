// Adds to each case of json_cases.py whether Node.js parses it.
import { readFileSync } from "node:fs";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const parses = (text) => {
  try {
    JSON.parse(decoder.decode(text));
    return true;
  } catch {
    return false;
  }
};
for (const line of readFileSync(0, "utf-8").trim().split("\n")) {
  const { case: name, text, ...others } = JSON.parse(line);
  const found = { case: name, text, ...others, node: parses(Buffer.from(text, "hex")) };
  console.log(JSON.stringify(found));
}
