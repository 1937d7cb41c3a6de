// An accessibility check of the page that is shown: returns sentences about what is wrong.
() => {
  const problems = [];
  const name = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}">`;
  const shown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && !element.closest("[hidden]");
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);

  function labelOf(element) {
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
    const own = element.getAttribute("aria-label") ?? "";
    const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(" ");
    return [own, labels, element.textContent, element.title].find((text) => text?.trim()) ?? "";
  }

  if (!document.documentElement.lang) problems.push("the page has no language");
  if (!document.title) problems.push("the page has no title");
  if (all("h1").length !== 1) problems.push(`the page has ${all("h1").length} h1`);
  if (all("main").length !== 1) problems.push("there is not one main");
  if (!document.querySelector("[aria-live], [role=status]")) problems.push("nothing announces changes");

  for (const element of all("a[href], button, input, select, textarea, [role=button], [role=option], [role=tab], [role=slider], [role=dialog], dialog, [role=img], [role=listbox], [role=table]")) {
    if (!labelOf(element).trim()) problems.push(`${name(element)} has no name`);
  }
  const seen = new Set();
  for (const { id } of document.querySelectorAll("[id]")) {
    if (seen.has(id)) problems.push(`the id ${id} occurs twice`);
    seen.add(id);
  }
  for (const attribute of ["aria-labelledby", "aria-controls", "aria-describedby", "aria-activedescendant"]) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(" ").filter(Boolean)) {
        if (!document.getElementById(id)) problems.push(`${name(element)}: ${attribute} names ${id}, which does not exist`);
      }
    }
  }
  const parents = { row: "table, [role=table], [role=rowgroup], [role=grid]", cell: "[role=row]", columnheader: "[role=row]", option: "[role=listbox]", tab: "[role=tablist]" };
  for (const [role, parent] of Object.entries(parents)) {
    for (const element of all(`[role=${role}]`)) if (!element.parentElement.closest(parent)) problems.push(`${name(element)} with role ${role} has the wrong parent`);
  }
  for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) problems.push(`${name(element)} has a positive tabindex`);
  for (const element of document.querySelectorAll("[aria-hidden=true]")) {
    if (element.matches("a, button, input") || element.querySelector("a, button, input")) problems.push(`${name(element)} is hidden but can be focused`);
  }
  let level = 0;
  for (const heading of all("h1, h2, h3, h4")) {
    const now = Number(heading.tagName[1]);
    if (level && now > level + 1) problems.push(`${name(heading)} skips a level: ${heading.textContent}`);
    level = now;
  }

  // The target of a click is at least 24 px high, except links inside of text.
  for (const element of all("button, select, input:not([type=checkbox], [type=radio], [type=range]), .tabs a, .icon")) {
    if (element.classList.contains("sr")) continue; // another element is its target
    const box = element.getBoundingClientRect();
    const after = getComputedStyle(element, "::after");
    const grown = after.position === "absolute" && after.content !== "none" ? -2 * parseFloat(after.top || "0") : 0;
    if (box.height + Math.max(0, grown) < 20 || box.width < 20) problems.push(`${name(element)} is a target of ${Math.round(box.width)} x ${Math.round(box.height)}: ${labelOf(element)}`);
  }

  // Contrast of every text with what is behind it.
  const rgb = (text) => {
    const numbers = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [...numbers.slice(0, 3).map((one) => one * 255), numbers[3] ?? 1] : [...numbers.slice(0, 3), numbers[3] ?? 1];
  };
  const luminance = ([r, g, b]) => {
    const part = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const over = (top, below) => [0, 1, 2].map((index) => top[index] * top[3] + below[index] * (1 - top[3]));
  const backgroundOf = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const color = rgb(getComputedStyle(one).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const reported = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !shown(element) || element.closest(".sr, script, noscript, svg, :disabled")) continue;
    const style = getComputedStyle(element);
    const behind = backgroundOf(element);
    const front = over(rgb(style.color), behind);
    const [light, dark] = [luminance(front), luminance(behind)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    const key = `${name(element)} ${style.color} on ${behind.map(Math.round)}`;
    if (ratio < (large ? 3 : 4.5) && !reported.has(key)) {
      reported.add(key);
      problems.push(`contrast ${ratio.toFixed(2)} of ${key}: ${walker.currentNode.data.trim().slice(0, 40)}`);
    }
  }
  return problems;
}
