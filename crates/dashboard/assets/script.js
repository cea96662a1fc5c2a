// Fetches the page again from time to time and shows what has changed. The pages are complete without it.
"use strict";

const PAUSE = 5000;
let isPaused = false;

const controls = document.querySelector(".controls");
if (controls) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Pause updates";
    button.addEventListener("click", () => {
        isPaused = !isPaused;
        button.textContent = isPaused ? "Resume updates" : "Pause updates";
    });
    controls.append(button);
    setInterval(update, PAUSE);
}

const search = document.getElementById("search");
if (search) {
    document.addEventListener("keydown", (event) => {
        if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
            event.preventDefault();
            search.select();
        }
    });
}

async function update() {
    if (isPaused || document.hidden) {
        return;
    }
    let response;
    try {
        response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(PAUSE) });
        if (response.redirected) {
            // The session has ended.
            location.reload();
            return;
        }
        show(new DOMParser().parseFromString(await response.text(), "text/html"));
    } catch {
        unreachable();
    }
}

function show(next) {
    const parts = (page) => [...page.querySelectorAll("[data-live]")];
    const names = (page) => parts(page).map((part) => part.id).join(" ");
    const main = document.querySelector("main");
    if (names(document) !== names(next)) {
        // A table has come or gone. A person who is in the middle of the page stays there.
        if (!main.contains(document.activeElement) || document.activeElement === main) {
            main.replaceChildren(...next.querySelector("main").childNodes);
            main.querySelectorAll("table").forEach(addControls);
        }
        return;
    }
    for (const part of parts(document)) {
        const other = next.getElementById(part.id);
        if (part.innerHTML !== other.innerHTML && !part.contains(document.activeElement) && !isSelected(part)) {
            part.replaceChildren(...other.childNodes);
            arrange(part);
        }
    }
}

// Sorting and filtering of tables.

// A table with fewer rows is read at a glance.
const ROWS_TO_FILTER = 8;
const UNITS = { µs: 1e-6, ms: 1e-3, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
// By the id of a table's body: the column to sort by, its direction (1 or -1), and the text to filter by.
const views = new Map();

document.querySelectorAll("table").forEach(addControls);

function addControls(table) {
    const body = table.tBodies[0];
    if (!body?.id) {
        return;
    }
    if (!views.has(body.id)) {
        views.set(body.id, { column: -1, direction: 1, text: "" });
    }
    const view = views.get(body.id);
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = cell.textContent;
        button.addEventListener("click", () => {
            // The largest number comes first.
            const first = cell.classList.contains("number") ? -1 : 1;
            view.direction = view.column === column ? -view.direction : first;
            view.column = column;
            arrange(body);
        });
        cell.replaceChildren(button);
    });
    if (body.rows.length >= ROWS_TO_FILTER) {
        table.parentElement.before(filter(body, view));
    }
    arrange(body);
}

function filter(body, view) {
    const row = document.createElement("p");
    row.className = "filter";
    const label = document.createElement("label");
    label.textContent = "Filter rows";
    label.htmlFor = `${body.id}-filter`;
    const input = document.createElement("input");
    input.type = "search";
    input.id = label.htmlFor;
    input.value = view.text;
    input.addEventListener("input", () => {
        view.text = input.value.trim().toLowerCase();
        arrange(body);
    });
    row.append(label, input);
    return row;
}

function arrange(body) {
    const view = views.get(body.id);
    if (!view) {
        return;
    }
    const rows = [...body.rows];
    for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(view.text);
    }
    if (view.column < 0) {
        return;
    }
    const headings = [...body.parentElement.tHead.rows[0].cells];
    headings.forEach((cell, column) => {
        if (column === view.column) {
            cell.setAttribute("aria-sort", view.direction > 0 ? "ascending" : "descending");
        } else {
            cell.removeAttribute("aria-sort");
        }
    });
    const key = (row) => row.cells[view.column].textContent.trim();
    const isNumber = headings[view.column].classList.contains("number");
    const compare = isNumber ? (a, b) => amount(key(a)) - amount(key(b)) : (a, b) => key(a).localeCompare(key(b));
    rows.sort((a, b) => view.direction * compare(a, b));
    body.append(...rows);
}

// `1 234`, `2.50 MiB`, `12.5 ms`, `3/s`; what is no number is less than any.
function amount(text) {
    const found = text.replaceAll("\u00a0", "").match(/^([\d.]+) ?([^/]*)/);
    return found ? Number(found[1]) * (UNITS[found[2]] ?? 1) : -1;
}

function isSelected(part) {
    const selection = getSelection();
    return selection.type === "Range" && selection.containsNode(part, true);
}

function unreachable() {
    const state = document.getElementById("state");
    const text = "The dashboard does not answer. The numbers are older.";
    if (state.textContent === text) {
        // A screen reader has said it.
        return;
    }
    const message = document.createElement("p");
    message.className = "alert";
    message.textContent = text;
    state.replaceChildren(message);
}
