// Sorting and filtering of tables; everything can be read without. No ampersands or angle brackets to the left: the page is XML too.
(function () {
  "use strict";
  function value(row, at) {
    var cell = row.cells[at];
    var given = cell.getAttribute("data-v");
    return given === null ? cell.textContent.trim().toLowerCase() : given;
  }
  function order(a, b, up) {
    if (a === b) { return 0; }
    // What was not measured comes last either way.
    if (a === "") { return 1; }
    if (b === "") { return -1; }
    var x = Number(a), y = Number(b);
    var difference = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, { numeric: true }) : x - y;
    return up ? difference : -difference;
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var body = table.tBodies[0];
    var heads = Array.from(table.querySelectorAll("thead th"));
    heads.forEach(function (head, at) {
      var button = head.querySelector("button");
      if (!button) { return; }
      button.addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        Array.from(body.rows)
          .sort(function (a, b) { return order(value(a, at), value(b, at), up); })
          .forEach(function (row) { body.appendChild(row); });
      });
    });
    var filter = table.parentNode.previousElementSibling;
    if (!filter || filter.type !== "search") { return; }
    filter.hidden = false;
    filter.addEventListener("input", function () {
      var words = filter.value.toLowerCase().split(/\s+/);
      Array.from(body.rows).forEach(function (row) {
        var text = row.textContent.toLowerCase();
        row.hidden = !words.every(function (word) { return text.includes(word); });
      });
    });
  });
})();
