// <send-code>: see docs/widget.md. This address stays the same for good; what it names changes with each release.
export { SendCode } from './static/send-code.js';
