// Texts of scripts in the language of the page, out of Django's catalog; on a page without one they stay English.

export const gettext = (text) => globalThis.django?.gettext?.(text) ?? text;

export const ngettext = (one, many, count) => globalThis.django?.ngettext?.(one, many, count) ?? (count === 1 ? one : many);

// "%(count)s nodes" with the values put in.
export const interpolate = (text, values) => text.replace(/%\((\w+)\)s/g, (whole, name) => values[name] ?? whole);
