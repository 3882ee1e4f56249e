// The feed: lines made by the server, newest first, each shown once. The reader's place in it is kept.

import { gettext, interpolate } from "./texts.js";

const MOST = 100;

export class Feed {
  constructor(list, empty, button) {
    this.list = list;
    this.empty = empty;
    this.button = button;
    this.last = 0;
    this.unseen = 0;
    for (const item of list.children) this.last = Math.max(this.last, Number(item.dataset.seq));
    localise(list);
    button.addEventListener("click", () => {
      list.scrollTop = 0;
      this.settle();
    });
    list.addEventListener("scroll", () => list.scrollTop < 8 && this.settle(), { passive: true });
  }

  apply(lines) {
    const fresh = lines.filter((line) => line.seq > this.last);
    if (!fresh.length) return;
    const { list } = this;
    const away = list.scrollTop > 8;
    const before = list.scrollHeight;
    for (const line of fresh) {
      const holder = document.createElement("template");
      holder.innerHTML = line.html;
      localise(holder.content);
      list.prepend(holder.content);
      this.last = line.seq;
    }
    this.empty.hidden = true;
    if (away) {
      list.scrollTop += list.scrollHeight - before;
      this.unseen += fresh.length;
      this.button.hidden = false;
      this.button.textContent = interpolate(gettext("%(count)s new"), { count: this.unseen });
    }
    while (list.children.length > MOST && !holds(list.lastElementChild)) list.lastElementChild.remove();
  }

  settle() {
    this.unseen = 0;
    this.button.hidden = true;
  }
}

function holds(element) {
  return element.contains(document.activeElement);
}

// Times are written in the reader's own zone.
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    time.textContent = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
    time.title = at.toLocaleString();
  }
}
