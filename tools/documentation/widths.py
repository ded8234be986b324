# SPDX-License-Identifier: BSD-2-Clause
"""Measures the pages of a site in Chromium: what sticks out of a page, images that are missing, pages without text.

usage: widths.py SITE [WIDTH]...
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# A telephone, a small window, a large one.
WIDTHS = (400, 900, 1600)
# Fewer letters than this are no page.
LEAST_LETTERS = 200
_CHROMIUM = (
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--allow-file-access-from-files", "--window-size=1700,1000", "--virtual-time-budget=600000", "--dump-dom",
)  # fmt: skip
# Each page is loaded into a frame of the width. What is wider may scroll in an element of its own.
_SCRIPT = """
const scrolls = element => element && element.tagName !== "ARTICLE" && (
  /auto|scroll|hidden/.test(element.ownerDocument.defaultView.getComputedStyle(element).overflowX)
  || scrolls(element.parentElement));
async function measured(page) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `border: 0; width: ${WIDTH}px; height: 900px`;
  const loaded = new Promise(resolve => { frame.onload = resolve; });
  frame.src = ROOT + page;
  document.body.append(frame);
  await loaded;
  const article = frame.contentDocument.querySelector("article");
  const faults = [], wide = frame.contentDocument.documentElement.scrollWidth;
  if (wide > WIDTH) faults.push(`is ${wide} px wide`);
  for (const each of article ? article.querySelectorAll("*") : []) {
    const {right, width} = each.getBoundingClientRect();
    if (width && right > WIDTH + 1 && !scrolls(each.parentElement))
      faults.push(`${each.tagName.toLowerCase()} ends at ${Math.round(right)} px: ${each.textContent.slice(0, 50)}`);
    if (each.tagName === "IMG" && !each.naturalWidth) faults.push(`no image ${each.getAttribute("src")}`);
  }
  const letters = article ? article.innerText.trim().length : 0;
  if (letters < LEAST) faults.push(`has ${letters} letters`);
  frame.remove();
  return faults.map(fault => `${page}: ${fault}`);
}
(async () => {
  const faults = [];
  for (const page of PAGES) faults.push(...await measured(page));
  const result = document.createElement("pre");
  result.id = "faults";
  result.textContent = JSON.stringify(faults);
  document.body.append(result);
})();
"""


def faults(site: Path, width: int) -> list[str]:
    """What is wrong with the pages of a site in a window of so many pixels, `PAGE: FAULT` each.

    Raises FileNotFoundError when there is no Chromium or no page, RuntimeError when Chromium does not answer.
    """
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if path.name != "404.html")
    if not pages:
        raise FileNotFoundError(f"{site} has no pages: tools/site builds them")
    constants = {"PAGES": pages, "WIDTH": width, "LEAST": LEAST_LETTERS, "ROOT": f"{site.resolve().as_uri()}/"}
    lines = "\n".join(f"const {name} = {json.dumps(value)};" for name, value in constants.items())
    with tempfile.TemporaryDirectory(prefix="mrc-site-") as scratch:
        frame = Path(scratch) / "pages.html"
        frame.write_text(f"<!doctype html><body><script>{lines}{_SCRIPT}</script>", encoding="utf-8")
        argv = [*_CHROMIUM, f"--user-data-dir={scratch}/user", frame.as_uri()]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    found = re.search(r'<pre id="faults">(.*?)</pre>', done.stdout, re.DOTALL)
    if found is None:
        raise RuntimeError(f"chromium ended with {done.returncode} and measured nothing: {done.stderr[-300:]}")
    listed: list[str] = json.loads(html.unescape(found[1]))
    return listed


def main(site: str, *widths: str) -> int:
    count = 0
    for width in map(int, widths or WIDTHS):
        try:
            found = faults(Path(site), width)
        except (OSError, RuntimeError) as error:
            print(f"tools/site: {error}", file=sys.stderr)
            return 2
        for fault in found:
            print(f"{width} px: {fault}", file=sys.stderr)
        count += len(found)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
