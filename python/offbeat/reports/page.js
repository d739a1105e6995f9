// SPDX-License-Identifier: BSD-3-Clause
// Unpack plotly, draw each figure from the JSON beside it, and let the buttons save it.
async function loadPlotly() {
  const packed = atob(document.getElementById('plotly').textContent);
  const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  const script = document.createElement('script');
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}
function draw() {
  for (const source of document.querySelectorAll('script[data-figure]')) {
    const name = source.dataset.figure;
    const figure = JSON.parse(source.textContent);
    Plotly.newPlot(name, figure.data, figure.layout, {
      responsive: true,
      displaylogo: false,
      // plotly 7 offers by default to upload a figure to its maker.
      showSendToCloud: false,
      plotlyServerURL: '',
      toImageButtonOptions: {format: 'svg', filename: name},
      modeBarButtonsToRemove: ['lasso2d', 'select2d'],
    });
  }
}
loadPlotly().then(draw);
for (const button of document.querySelectorAll('button[data-save]')) {
  button.addEventListener('click', () => {
    const {save: format, of: filename} = button.dataset;
    const plot = document.getElementById(filename);
    const {width, height} = plot.getBoundingClientRect();
    Plotly.downloadImage(plot, {format, filename, width, height, scale: format === 'png' ? 2 : 1});
  });
}
