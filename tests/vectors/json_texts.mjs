// Adds to each case of json_cases.py whether Node.js parses it, and the member v of the document: a
// text, or the bits of a number.
import { readFileSync } from "node:fs";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const parse = (bytes) => {
  try {
    return { value: JSON.parse(decoder.decode(bytes)) };
  } catch {
    return null;
  }
};
const bits = (number) => {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
};
const written = (member) =>
  typeof member === "string" ? { string: member.toWellFormed() }
  : typeof member === "number" ? { double: bits(member) } : {};

for (const line of readFileSync(0, "utf-8").trim().split("\n")) {
  const found = JSON.parse(line);
  const node = parse(Buffer.from(found.text, "hex")) !== null;
  const document = parse(Buffer.from(found.document, "hex"));
  console.log(JSON.stringify({ ...found, node, in_node: written(document?.value?.v) }));
}
