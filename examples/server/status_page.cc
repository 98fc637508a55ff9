#include "status_page.h"

namespace server {

const char kStatusPage[] = R"html(<!doctype html>
<html lang="en"><meta charset="utf-8"><title>rserve</title>
<style>
  body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #222 }
  h1 { font-size: 1.3rem } .muted { color: #666 }
  .row { display: flex; align-items: center; height: 20px }
  .row > span { width: 9rem; flex: none; font-variant-numeric: tabular-nums }
  .lane { position: relative; flex: 1; height: 14px; background: #f3f3f3 }
  .bar { position: absolute; height: 7px; min-width: 2px }
  .encode { top: 0; background: #c2410c } .prefill { top: 7px; background: #1d4ed8 }
  .key { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px }
</style>
<h1>rserve: <span id="model"></span></h1>
<p id="state" class="muted" role="status">loading</p>
<p class="muted">The last requests, from submit to first token:
  <i class="key encode" style="position:static"></i>encode
  <i class="key prefill" style="position:static"></i>prefill</p>
<div id="rows"></div>
<script>
const text = (id, value) => document.getElementById(id).textContent = value;
function bar(kind, from, to, origin, span) {
  const element = document.createElement("div");
  element.className = "bar " + kind;
  element.style.left = 100 * (from - origin) / span + "%";
  element.style.width = 100 * Math.max(0, to - from) / span + "%";
  return element;
}
function draw(state) {
  text("model", state.model);
  text("state", `${state.open} open, ${state.finished} answered` + (state.draining ? ", draining" : ""));
  const rows = document.getElementById("rows");
  rows.replaceChildren();
  const longest = Math.max(1, ...state.requests.map(r => r.first_token - r.submitted));
  for (const r of [...state.requests].reverse()) {
    const row = document.createElement("div"), label = document.createElement("span");
    const lane = document.createElement("div");
    row.className = "row"; lane.className = "lane";
    const ms = ((r.first_token - r.submitted) / 1e6).toFixed(1);
    label.textContent = `#${r.id}  ${r.pictures} pict.  ${ms} ms`;
    if (r.first_encode) lane.append(bar("encode", r.first_encode, r.last_encode, r.submitted, longest));
    lane.append(bar("prefill", r.first_prefill, r.first_token, r.submitted, longest));
    row.append(label, lane);
    rows.append(row);
  }
}
async function refresh() {
  try { draw(await (await fetch("/recent")).json()); } catch { text("state", "the server is gone"); }
  setTimeout(refresh, 1000);
}
refresh();
</script>
</html>
)html";

}  // namespace server
