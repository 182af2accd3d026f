export default ({ children }) => <html lang="en">
  <head><script type="module" src="https://codes.example/widget.js" /></head>
  <body>{children}</body>
</html>;
