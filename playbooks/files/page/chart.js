/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
// GPU-hours of each day as stacked bars, drawn by uPlot.

let chart = null;

function drawChart(data, colours) {
  chart?.destroy();
  chart = null;
  const days = data.days;
  const isEmpty = !days || !days.hours.flat().some((value) => value > 0);
  if (isEmpty) return fill('chart', make('p', { class: 'calm' }, days ? 'No GPU was used.' : 'Usage is not recorded.'));
  const readout = make('p', { class: 'readout', 'aria-hidden': 'true' });
  const box = make('div', { class: 'plot', 'aria-hidden': 'true' });
  const host = fill('chart', box, readout, chartTable(days));
  const width = Math.max(280, host.clientWidth);
  chart = new uPlot(chartOptions(days, colours, width, readout), [days.days.map((_day, i) => i), ...cumulated(days.hours).reverse()], box);
  return host;
}

/** Return each row of hours plus the rows before this row, so that the bars are stacked. */
function cumulated(rows) {
  const sums = [];
  for (const row of rows) sums.push(row.map((value, i) => value + (sums.length ? sums[sums.length - 1][i] : 0)));
  return sums;
}

/** Return a day such as "14 Sat", or "Sat" if there is little room. */
function weekday(day, narrow = false) {
  return new Date(`${day}T12:00:00Z`).toLocaleDateString('en', { weekday: 'short', day: narrow ? undefined : 'numeric', timeZone: 'UTC' });
}

function chartOptions(days, colours, width, readout) {
  const style = getComputedStyle(document.documentElement);
  const variable = (name) => style.getPropertyValue(name).trim();
  const font = `500 13px ${variable('--font')}`;
  const axis = { stroke: variable('--muted'), font, ticks: { show: false }, grid: { stroke: variable('--line'), width: 1 } };
  const series = days.owners.map((owner) => {
    const colour = variable(`--${colours.get(owner) || NO_COLOUR}`);
    return { label: owner, fill: colour, stroke: colour, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.64, 72], radius: 0 }) };
  });
  return {
    width,
    height: 260,
    legend: { show: false },
    cursor: { y: false, x: false, drag: { x: false, y: false }, points: { show: false } },
    padding: [12, 8, 0, 0],
    scales: { x: { time: false, range: [-0.5, days.days.length - 0.5] }, y: { range: (_plot, _least, most) => [0, most * 1.08 || 1] } },
    axes: [
      { ...axis, grid: { show: false }, splits: () => days.days.map((_day, i) => i), values: (_plot, splits) => splits.map((i) => weekday(days.days[i], width < 560)) },
      { ...axis, size: 56, values: (_plot, splits) => splits.map((value) => `${value.toLocaleString('en')} h`) },
    ],
    series: [{}, ...series.reverse()],
    hooks: { setCursor: [(plot) => readDay(days, plot.cursor.idx, colours, readout)] },
  };
}

/** Show the hours of the day under the pointer, or the sum of all days. */
function readDay(days, index, colours, readout) {
  const isDay = index !== null && index !== undefined && days.days[index] !== undefined;
  const hours = days.hours.map((row) => (isDay ? row[index] : row.reduce((a, b) => a + b, 0)));
  const total = hours.reduce((a, b) => a + b, 0);
  const round = (value) => `${Math.round(value).toLocaleString('en')} h`;
  const owners = days.owners.map((owner, i) => [owner, hours[i]]).filter(([, value]) => value > 0);
  readout.replaceChildren(
    make('b', {}, `${isDay ? weekday(days.days[index]) : 'Sum'} ${round(total)}`),
    ...owners.map(([owner, value]) => make('span', {}, make('i', { class: `swatch ${colours.get(owner) || NO_COLOUR}` }), `${owner || 'no owner'} ${round(value)}`)));
}

function chartTable(days) {
  const head = make('tr', {}, make('th', { scope: 'col' }, 'Owner'), ...days.days.map((day) => make('th', { scope: 'col' }, day)));
  const rows = days.owners.map((owner, i) => make('tr', {}, make('th', { scope: 'row' }, owner || 'no owner'), ...days.hours[i].map((value) => make('td', {}, value.toFixed(1)))));
  return make('details', { class: 'as-table' }, make('summary', {}, 'As a table'),
    make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, head), make('tbody', {}, ...rows))));
}
