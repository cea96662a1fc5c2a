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
        }
        return;
    }
    for (const part of parts(document)) {
        const other = next.getElementById(part.id);
        if (part.innerHTML !== other.innerHTML && !part.contains(document.activeElement) && !isSelected(part)) {
            part.replaceChildren(...other.childNodes);
        }
    }
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
