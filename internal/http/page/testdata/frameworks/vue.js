import { createApp, createSSRApp, h, ref } from 'vue';
import { renderToString } from 'vue/server-renderer';
import SignIn from './SignIn.js';

const purpose = ref('default'), root = globalThis.document?.getElementById('app');
globalThis.change = (to) => { purpose.value = to; };
const shop = { render: () => h(SignIn, { purpose: purpose.value, onProof: async (proof) => { window.proof = proof; return window.accepts; } }) };
if (root) (root.hasChildNodes() ? createSSRApp : createApp)(shop).mount(root);
else console.log(await renderToString(createSSRApp(shop)));
