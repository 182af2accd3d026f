// Compiles the Vue component on the standard input, as a site's bundler does.
const { compileScript, parse } = require('vue/compiler-sfc');
const compilerOptions = { isCustomElement: (tag) => tag === 'send-code' };
const { descriptor, errors } = parse(require('node:fs').readFileSync(0, 'utf8'), { templateParseOptions: compilerOptions });
if (errors.length) throw errors[0];
console.log(compileScript(descriptor, { id: 'sign-in', inlineTemplate: true, templateOptions: { compilerOptions } }).content);
