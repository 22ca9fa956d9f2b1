// Colours of instances. An instance keeps its colour while the page is open.

const COLOURS = 8;
const colours = new Map();

/** The colour of an instance: a number in admin.css. */
export function colourOf(id) {
  if (id === null) return "none";
  if (!colours.has(id)) colours.set(id, colours.size % COLOURS);
  return String(colours.get(id));
}

/** Assigns colours to new instances, in the order of their ids. */
export function assignColours(ids) {
  for (const id of [...ids].sort()) colourOf(id);
}
