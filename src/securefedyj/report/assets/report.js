const controls = document.getElementById("filter");
const text = document.getElementById("filter-text");
const flagged = document.getElementById("filter-flagged");
const rows = [...document.querySelectorAll("#features tbody tr")];
function filter() {
  const wanted = text.value.trim().toLowerCase();
  let shown = 0;
  for (const row of rows) {
    const name = row.cells[0].textContent.toLowerCase();
    row.hidden = !name.includes(wanted) || (flagged.checked && !row.querySelector(".flag"));
    shown += !row.hidden;
  }
  document.getElementById("filter-count").textContent = shown + " of " + rows.length;
}
controls.hidden = false;
controls.addEventListener("input", filter);
filter();
