// SPDX-License-Identifier: BSD-3-Clause
// Draw each figure from the JSON beside it, and let the buttons save it.
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
for (const button of document.querySelectorAll('button[data-save]')) {
  button.addEventListener('click', () => {
    const {save: format, of: filename} = button.dataset;
    const plot = document.getElementById(filename);
    const {width, height} = plot.getBoundingClientRect();
    Plotly.downloadImage(plot, {format, filename, width, height, scale: format === 'png' ? 2 : 1});
  });
}
