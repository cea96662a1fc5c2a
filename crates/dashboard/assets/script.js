// Fetches the page again from time to time, and puts what is new in its place. Without it everything is there, too.
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
        button.textContent = isPaused ? "Go on with updates" : "Pause updates";
    });
    controls.append(button);
    setInterval(update, PAUSE);
}

async function update() {
    if (isPaused || document.hidden) {
        return;
    }
    let answer;
    try {
        answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(PAUSE) });
        if (answer.redirected) {
            // The session has ended.
            location.reload();
            return;
        }
        show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
        unreachable();
    }
}

function show(next) {
    const parts = (page) => [...page.querySelectorAll("[data-live]")];
    const names = (page) => parts(page).map((part) => part.id).join(" ");
    const main = document.querySelector("main");
    if (names(document) !== names(next)) {
        // A table has come or gone. Whoever is in the middle of the page is not thrown out of it.
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
// By the id of a table's body: the column to sort by, its direction (1 or -1), and the text to look for.
const wishes = new Map();

document.querySelectorAll("table").forEach(addControls);

function addControls(table) {
    const body = table.tBodies[0];
    if (!body?.id) {
        return;
    }
    if (!wishes.has(body.id)) {
        wishes.set(body.id, { column: -1, direction: 1, text: "" });
    }
    const wish = wishes.get(body.id);
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = cell.textContent;
        button.addEventListener("click", () => {
            // Numbers are wanted largest first.
            const first = cell.classList.contains("number") ? -1 : 1;
            wish.direction = wish.column === column ? -wish.direction : first;
            wish.column = column;
            arrange(body);
        });
        cell.replaceChildren(button);
    });
    if (body.rows.length >= ROWS_TO_FILTER) {
        table.parentElement.before(filter(body, wish));
    }
    arrange(body);
}

function filter(body, wish) {
    const row = document.createElement("p");
    row.className = "filter";
    const label = document.createElement("label");
    label.textContent = "Filter rows";
    label.htmlFor = `${body.id}-filter`;
    const input = document.createElement("input");
    input.type = "search";
    input.id = label.htmlFor;
    input.value = wish.text;
    input.addEventListener("input", () => {
        wish.text = input.value.trim().toLowerCase();
        arrange(body);
    });
    row.append(label, input);
    return row;
}

function arrange(body) {
    const wish = wishes.get(body.id);
    if (!wish) {
        return;
    }
    const rows = [...body.rows];
    for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wish.text);
    }
    if (wish.column < 0) {
        return;
    }
    const headings = [...body.parentElement.tHead.rows[0].cells];
    headings.forEach((cell, column) => {
        if (column === wish.column) {
            cell.setAttribute("aria-sort", wish.direction > 0 ? "ascending" : "descending");
        } else {
            cell.removeAttribute("aria-sort");
        }
    });
    const key = (row) => row.cells[wish.column].textContent.trim();
    const isNumber = headings[wish.column].classList.contains("number");
    const compare = isNumber ? (a, b) => amount(key(a)) - amount(key(b)) : (a, b) => key(a).localeCompare(key(b));
    rows.sort((a, b) => wish.direction * compare(a, b));
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
    const text = "The dashboard itself does not answer. The numbers are those from before.";
    if (state.textContent === text) {
        // A screen reader has said it.
        return;
    }
    const message = document.createElement("p");
    message.className = "alert";
    message.textContent = text;
    state.replaceChildren(message);
}
