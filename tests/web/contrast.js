// The texts that stand out from what is behind them by less than WCAG 2.2 AA asks for.
const channels = color => {
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = color;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
};
const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
  .reduce((sum, c, n) => sum + c * [.2126, .7152, .0722][n], 0);
const behind = element => {
  for (let at = element; at; at = at.parentElement) {
    const found = channels(getComputedStyle(at).backgroundColor);
    if (found[3] === 255) return found;
  }
  return [255, 255, 255];
};
const weak = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement, style = getComputedStyle(element);
  if (!walker.currentNode.data.trim() || !element.checkVisibility() || ["SCRIPT", "OPTION", "NOSCRIPT"].includes(element.tagName)) continue;
  const [a, b] = [light(channels(style.color)), light(behind(element))].sort((a, b) => b - a);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
  if ((a + .05) / (b + .05) < (large ? 3 : 4.5)) weak.add(`${walker.currentNode.data.trim().slice(0, 40)}: ${((a + .05) / (b + .05)).toFixed(2)}`);
}
return [...weak];
