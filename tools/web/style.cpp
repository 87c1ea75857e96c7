// SPDX-License-Identifier: Apache-2.0
// The style sheet and the icon of the site.

#include "tools/web/site.h"

namespace tw::tools::web {

std::string_view style_sheet() {
  return R"css(
:root { color-scheme: light dark; --page: #fff; --text: #1d2126; --soft: #5c6570; --line: #dfe3e8;
  --panel: #f6f7f9; --link: #1a5fb4; --good: #1a7f37; --fair: #9a6700; --weak: #a4511c;
  --s0: #2f6fb3; --s1: #d9761f; --s2: #3f9142; --s3: #c23b46; --s4: #7a58b0; --s5: #14868c;
  --s6: #8a8f96; --shade: 47, 111, 179; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --text: #e2e6ea; --soft: #99a3ad; --line: #2f353c; --panel: #1c2026;
    --link: #79b2f2; --good: #56d364; --fair: #e3b341; --weak: #f0883e;
    --s0: #6cabec; --s1: #f0a050; --s2: #6cc26f; --s3: #f0707a; --s4: #b294e6; --s5: #4cc3c9;
    --s6: #7d848c; --shade: 108, 171, 236; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 0.4rem 1.6rem; align-items: baseline;
  padding: 0.7rem 1.5rem; border-bottom: 1px solid var(--line); background: var(--panel); }
header nav { display: flex; gap: 1.2rem; }
.brand { font-weight: 650; color: var(--text); }
.database { margin-left: auto; color: var(--soft); font-size: 0.87em; overflow-wrap: anywhere; }
main { max-width: 84rem; margin: 0 auto; padding: 0.5rem 1.5rem 2rem; }
footer { max-width: 84rem; margin: 0 auto; padding: 0 1.5rem 2rem; color: var(--soft);
  font-size: 0.87em; overflow-wrap: anywhere; }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
h1 { font-size: 1.3rem; line-height: 1.35; overflow-wrap: anywhere; white-space: pre-wrap; }
h2 { font-size: 1.05rem; margin: 2rem 0 0.5rem; padding-top: 0.8rem;
  border-top: 1px solid var(--line); }
small, .summary, figcaption { color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.93em; }
th, td { text-align: left; vertical-align: top; padding: 0.36rem 1.1rem 0.36rem 0; }
thead th { border-bottom: 2px solid var(--line); white-space: nowrap; font-weight: 600; }
tbody td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
tbody tr:hover td { background: var(--panel); }
.number, .when { white-space: nowrap; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.name { min-width: 16rem; }
.filter { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 1rem 0; }
input, select, button { font: inherit; color: inherit; background: var(--page); max-width: 20rem;
  border: 1px solid var(--line); border-radius: 5px; padding: 0.28rem 0.6rem; }
input[type=search] { flex: 1; min-width: 10rem; }
button { background: var(--panel); cursor: pointer; }
.pager { display: flex; gap: 1.2rem; margin: 1rem 0; color: var(--soft); }
.coverage td, .coverage th { padding: 0.36rem 0.6rem; }
.coverage thead th { white-space: normal; vertical-align: bottom; }
.coverage td + td { text-align: center; white-space: nowrap; overflow-wrap: normal;
  font-variant-numeric: tabular-nums; }
.coverage td a { color: inherit; }
.none, .tried { color: var(--soft); }
.c0 { background: rgba(var(--shade), 0.05); } .c1 { background: rgba(var(--shade), 0.1); }
.c2 { background: rgba(var(--shade), 0.15); } .c3 { background: rgba(var(--shade), 0.2); }
.c4 { background: rgba(var(--shade), 0.25); } .c5 { background: rgba(var(--shade), 0.3); }
.c6 { background: rgba(var(--shade), 0.36); } .c7 { background: rgba(var(--shade), 0.42); }
.c8 { background: rgba(var(--shade), 0.48); } .c9 { background: rgba(var(--shade), 0.55); }
.sure { color: var(--good); } .fair { color: var(--fair); } .weak { color: var(--weak); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1.5rem; margin: 1rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; overflow-x: auto;
  padding: 0.7rem 1rem; font-size: 0.87em; line-height: 1.45; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.copy { user-select: all; white-space: pre-wrap; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--link); margin: 0.5rem 0; }
.place { display: block; max-width: 20rem; white-space: normal; }
.chart { margin: 0.5rem 0; }
.chart svg { display: block; width: 100%; height: auto; max-width: 68rem; }
.chart .grid { stroke: var(--line); }
.chart .tick { fill: var(--soft); font-size: 12px; }
.chart .right { text-anchor: end; }
.chart .s0 { --c: var(--s0); } .chart .s1 { --c: var(--s1); } .chart .s2 { --c: var(--s2); }
.chart .s3 { --c: var(--s3); } .chart .s4 { --c: var(--s4); } .chart .s5 { --c: var(--s5); }
.chart .s6 { --c: var(--s6); }
.chart .best { fill: none; stroke: var(--c); stroke-width: 1.6; }
.chart .trial { fill: var(--c); fill-opacity: 0.4; }
.chart .doubt { fill: none; stroke: var(--c); stroke-opacity: 0.45; }
.chart .lead { fill: var(--c); stroke: var(--page); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2rem 1.4rem; margin: 0.3rem 0;
  padding: 0; font-size: 0.87em; }
.legend .key { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 50%;
  margin-right: 0.45em; background: var(--c); }
figcaption { font-size: 0.87em; max-width: 60rem; }
@media print { header nav, .filter, .pager { display: none; } }
)css";
}

std::string_view icon() {
  return R"svg(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">
<path fill="#2f6fb3" d="M1 1h6v6H1zM9 9h6v6H9z"/><path fill="#d9761f" d="M9 1h6v6H9zM1 9h6v6H1z"/></svg>
)svg";
}

}  // namespace tw::tools::web
