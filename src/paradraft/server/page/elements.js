// Small helpers around the document. Texts always go in as text, never as markup.

export function byId(id) {
  return document.getElementById(id);
}

/** Return a new element with classes, properties and children; children are elements or texts. */
export function make(tag, className = "", properties = {}, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
}

export function percent(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)} %` : "-";
}
