import { createApp, h, ref } from 'vue';
import SignIn from './SignIn.js';

const purpose = ref('default');
window.change = (to) => { purpose.value = to; };
createApp({ render: () => h(SignIn, { purpose: purpose.value, onProof: async (proof) => { window.proof = proof; return window.accepts; } }) }).mount('#app');
