// Optional enhancements of complete pages: times in the reader's time zone, and events as they arrive.
function toZone(root) {
  const form = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = time.textContent;
    time.textContent = form.format(at);
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function follow(list, status) {
  let wait = 1000;
  for (;;) {
    if (document.hidden) await new Promise((resolve) => addEventListener("visibilitychange", resolve, { once: true }));
    try {
      const answer = await fetch(`/dashboard/events/new?after=${list.dataset.last}`, { redirect: "error" });
      if (!answer.ok) throw new Error(answer.status);
      const rows = document.createElement("ul");
      rows.innerHTML = await answer.text();
      toZone(rows);
      list.prepend(...rows.children);
      list.dataset.last = answer.headers.get("x-last");
      status.textContent = "Live: new events appear automatically.";
      wait = 200;
    } catch {
      status.textContent = "Connection lost. Reconnecting.";
      wait = Math.min(wait * 2 + 1000, 30000);
    }
    await pause(wait);
  }
}

toZone(document);
const list = document.querySelector("#events[data-last]");
if (list) follow(list, document.querySelector("#live"));
