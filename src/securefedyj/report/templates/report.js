const table = document.getElementById("features");
const body = table.tBodies[0];
const controls = document.getElementById("filter");
const text = document.getElementById("filter-text");
const flagged = document.getElementById("filter-flagged");
const count = document.getElementById("filter-count");
const all = document.getElementById("filter-all");
let most = 200; // rows at a time, as in the style sheet: more would take seconds to lay out
let rows = [...body.rows].map((row, place) => ({
  row,
  place,
  name: row.cells[0].firstElementChild.textContent.toLowerCase(),
  noted: row.querySelector(".flag") !== null,
}));

function filter() {
  const wanted = text.value.trim().toLowerCase();
  let found = 0;
  for (const { row, name, noted } of rows) {
    const matches = name.includes(wanted) && (noted || !flagged.checked);
    row.hidden = !matches || found >= most;
    found += matches;
  }
  all.hidden = found <= most;
  count.textContent =
    found + " of " + rows.length + (all.hidden ? "" : ", the first " + most + " shown");
}

function value(row, column) {
  const number = parseFloat(row.cells[column].textContent.replaceAll("−", "-"));
  return Number.isNaN(number) ? -Infinity : number;
}

// The first click sorts names from A, and numbers from the largest; the third restores the order.
function sort(head) {
  const column = head.cellIndex, first = column === 0 ? "ascending" : "descending";
  const now = head.getAttribute("aria-sort");
  const other = column === 0 ? "descending" : "ascending";
  const next = now === first ? other : now === other ? "none" : first;
  for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
  rows.sort((a, b) => a.place - b.place);
  if (next !== "none") {
    head.setAttribute("aria-sort", next);
    const sign = next === "ascending" ? 1 : -1;
    const keyed = rows.map((one) => [column === 0 ? one.name : value(one.row, column), one]);
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    keyed.sort(([a], [b]) => sign * (column === 0 ? compare(a, b) : a === b ? 0 : a < b ? -1 : 1));
    rows = keyed.map(([, one]) => one);
  }
  filter();
  body.append(...rows.map((one) => one.row));
}

for (const head of table.tHead.rows[0].cells) {
  if (head.dataset.picture !== undefined) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  button.addEventListener("click", () => sort(head));
  head.replaceChildren(button);
}
all.addEventListener("click", () => {
  most = Infinity;
  filter();
});
controls.hidden = false;
controls.addEventListener("input", filter);
filter();
body.classList.remove("first");
