// A choice of versions on every page, where several are published side by side: `versions.json` beside their folders names them.
(async () => {
    const root = new URL(path_to_root || "./", location.href);
    const answer = await fetch(new URL("../versions.json", root)).catch(() => null);
    if (!answer?.ok) {
        return;
    }
    const here = root.pathname.split("/").filter(Boolean).pop();
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", "Version");
    for (const version of await answer.json()) {
        choice.add(new Option(version, version, version === here, version === here));
    }
    choice.addEventListener("change", () => {
        location.href = new URL(`../${choice.value}/`, root);
    });
    document.querySelector(".right-buttons")?.prepend(choice);
})();
