// A colour for each instance, beside its name: the same one for as long as the page is open.

const COLOURS = 8;
const seen = new Map();

/** The number of the colour (admin.css has them) of the instance named `id`. */
export function colourOf(id) {
  if (id === null) return "none";
  if (!seen.has(id)) seen.set(id, seen.size % COLOURS);
  return String(seen.get(id));
}

export function learn(ids) {
  for (const id of [...ids].sort()) colourOf(id);
}
