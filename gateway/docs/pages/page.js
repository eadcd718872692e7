// Enhancements for pages that also work without scripts: copy buttons, one language for all tabs, a search shortcut, an
// outline that marks the current section, and a filter of the platforms.
const LANGUAGE = "language";

function copying(block) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const shown = [...block.querySelectorAll("pre")].find((pre) => pre.offsetParent);
    const commands = [...shown.querySelectorAll(".p + .k")].map((typed) => typed.textContent);
    await navigator.clipboard.writeText(commands.length ? commands.join("\n") : shown.textContent.trimEnd());
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}

function choose(language) {
  for (const label of document.querySelectorAll(".tabs label"))
    if (label.textContent === language) label.control.checked = true;
}

function rememberLanguage() {
  choose(localStorage.getItem(LANGUAGE));
  document.addEventListener("change", ({ target }) => {
    if (!target.matches(".tabs input")) return;
    const language = target.labels[0].textContent;
    const before = target.getBoundingClientRect().top;
    choose(language);
    scrollBy({ top: target.getBoundingClientRect().top - before, behavior: "instant" });
    localStorage.setItem(LANGUAGE, language);
  });
}

function searchByKey(event) {
  const isTyped = event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
  if (event.key !== "/" || isTyped) return;
  event.preventDefault();
  document.querySelector(".top input[type=search]").select();
}

function followOutline() {
  const links = new Map([...document.querySelectorAll(".outline a")].map((link) => [link.hash.slice(1), link]));
  const heads = [...document.querySelectorAll(".text h2[id]")].filter((head) => links.has(head.id));
  const mark = () => {
    const passed = heads.filter((head) => head.getBoundingClientRect().top < innerHeight / 4);
    for (const link of links.values()) link.removeAttribute("aria-current");
    if (passed.length) links.get(passed.at(-1).id).setAttribute("aria-current", "true");
  };
  const watch = new IntersectionObserver(mark, { rootMargin: "0px 0px -75% 0px" });
  heads.forEach((head) => watch.observe(head));
}

// Shows only the items that contain all words of a search box, in their text or in the heading of their group.
function filterBy(input) {
  const groups = [...document.querySelectorAll("[data-group]")].map((group) => {
    const heading = group.querySelector("h2, h3").textContent;
    const items = [...group.querySelectorAll("[data-item]")];
    return { group, items: items.map((item) => ({ item, text: `${heading} ${item.textContent}`.toLowerCase() })) };
  });
  const none = document.querySelector("[data-none]");
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let found = false;
    for (const { group, items } of groups) {
      for (const { item, text } of items) item.hidden = !words.every((word) => text.includes(word));
      group.hidden = items.every(({ item }) => item.hidden);
      found ||= !group.hidden;
    }
    none.hidden = found;
  };
  input.addEventListener("input", filter);
  filter(); // The browser may have restored the text.
}

if (navigator.clipboard) document.querySelectorAll(".code").forEach(copying);
document.addEventListener("keydown", searchByKey);
document.querySelectorAll("[data-filter]").forEach(filterBy);
followOutline();
rememberLanguage();
